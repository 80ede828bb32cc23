package firmware

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/netip"
	"time"
)

// Opcodes and error codes (RFC 1350, RFC 2347).
const (
	opRRQ   = 1
	opDATA  = 3
	opACK   = 4
	opERROR = 5
	opOACK  = 6

	codeNotFound = 1
	codeStranger = 5
	codeOption   = 8
)

const (
	blockDefault = 512
	blockFrame   = 1468 // fits a frame
	tftpTries    = 10   // of an acknowledgement
	requestTries = 4
	maxFile      = 64 << 20
)

// A tftpError is an ERROR packet.
type tftpError struct {
	code int
	text string
}

// Error implements error.
func (e tftpError) Error() string { return fmt.Sprintf("TFTP error %d, %q", e.code, e.text) }

// A transfer is one file on its way in.
type transfer struct {
	m      *machine
	conn   *net.UDPConn
	server netip.AddrPort // of requests; then of the transfer
	locked bool           // server is the transfer's
	asked  []tftpOption
	size   int // of blocks
	total  int64
	sent   []byte // last packet, to be repeated
	next   uint16
	got    int64
	sum    hash.Hash
	sink   io.Writer
	buf    []byte
}

func newTransfer(m *machine, server netip.AddrPort, options []tftpOption, sink io.Writer) *transfer {
	return &transfer{m: m, server: server, asked: options, size: blockDefault, total: -1, next: 1, sum: sha256.New(), sink: sink, buf: make([]byte, maxFrame)}
}

// tftp fetches a file by TFTP from the appliance, with the given options, into
// sink.
func (m *machine) tftp(ctx context.Context, name string, options []tftpOption, sink io.Writer) (File, error) {
	file := File{Name: name, URL: "tftp://" + m.server(m.nic).String() + "/" + name}
	server := m.Wire.TFTP()
	if !server.IsValid() {
		return file, fmt.Errorf("fetch %s: the appliance has no TFTP server", file.URL)
	}
	t := newTransfer(m, server, options, sink)
	if err := m.connectable(ctx); err != nil {
		return file, fmt.Errorf("fetch %s: %w", file.URL, err)
	}
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(m.nic.lease.IP, 0)))
	if err != nil {
		return file, fmt.Errorf("fetch %s: %w", file.URL, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	t.conn = conn
	if err := t.run(ctx, name); err != nil {
		return file, fmt.Errorf("fetch %s: %w", file.URL, err)
	}
	file.Size, file.SHA256 = t.got, hex.EncodeToString(t.sum.Sum(nil))
	return file, nil
}

// errSize ends a transfer that was to tell the size only.
var errSize = errors.New("size is known")

// sizeOf asks for the size of a file, as firmware does before it takes it.
func (m *machine) sizeOf(ctx context.Context, name string) (int64, error) {
	var size int64 = -1
	_, err := m.tftp(ctx, name, []tftpOption{{m.spelled("tsize"), 0}}, sizeOnly{&size})
	if errors.Is(err, errSize) {
		err = nil
	}
	return size, err
}

// sizeOnly takes a size and no content.
type sizeOnly struct{ size *int64 }

// Write implements io.Writer.
func (sizeOnly) Write([]byte) (int, error) { return 0, errSize }

// run is the transfer: repeat what was sent last until what is next comes.
func (t *transfer) run(ctx context.Context, name string) error {
	t.sent = request(name, t.asked)
	for tries := 0; ; {
		if err := t.send(ctx); err != nil {
			return err
		}
		done, progress, err := t.receive(ctx)
		switch {
		case err != nil:
			return err
		case done:
			return t.finish(ctx)
		case progress:
			tries = 0
		default:
			tries++
			if tries == tftpTries || !t.locked && tries == requestTries {
				return fmt.Errorf("block %d: %w", t.next, errTimeout)
			}
		}
	}
}

// finish sends the last acknowledgement once more where the wire has lost it:
// a client that ends at once leaves the server repeating its last block.
func (t *transfer) finish(ctx context.Context) error {
	if t.total >= 0 && t.total != t.got {
		return fmt.Errorf("got %d bytes of %d", t.got, t.total)
	}
	return t.send(ctx)
}

func (t *transfer) send(ctx context.Context) error {
	if t.m.lost() {
		return ctx.Err()
	}
	if err := t.m.delay(ctx); err != nil {
		return err
	}
	_, err := t.conn.WriteToUDPAddrPort(t.sent, t.server)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("send: %w", err)
	}
	return ctx.Err()
}

// receive waits for the packet that is next. No progress means that it did not
// come in time.
func (t *transfer) receive(ctx context.Context) (done, progress bool, err error) {
	patience := t.m.patience(time.Second, 300*time.Millisecond)
	if !t.locked { // a request that is repeated is a second transfer to the server
		patience = t.m.patience(4*time.Second, 2*time.Second)
	}
	_ = t.conn.SetReadDeadline(time.Now().Add(patience))
	if ctx.Err() != nil { // or its deadline would have been overwritten
		return false, false, ctx.Err()
	}
	for {
		n, from, err := t.conn.ReadFromUDPAddrPort(t.buf)
		if ctx.Err() != nil {
			return false, false, ctx.Err()
		}
		if err != nil {
			return false, false, nil // time is up; or nobody listens there yet
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if !t.mine(n, from) || t.m.lost() || t.m.delay(ctx) != nil {
			continue
		}
		done, took, err := t.take(t.buf[:n], from)
		if took || err != nil {
			return done, true, err
		}
	}
}

// mine reports whether a datagram is of this transfer. The first answer fixes
// the server's port (RFC 1350 section 4); some ROMs insist on the address that
// they asked (D-14), others cannot take what is larger than a frame (D-15).
func (t *transfer) mine(n int, from netip.AddrPort) bool {
	switch {
	case t.locked:
		if from != t.server {
			t.refuse(from, codeStranger)
			return false
		}
	case t.m.on("D-14") && from.Addr() != t.server.Addr():
		return false
	}
	return !t.m.on("D-15") || n <= 4+blockFrame
}

// take looks at a packet; took means that it is what was waited for.
func (t *transfer) take(p []byte, from netip.AddrPort) (done, took bool, err error) {
	if len(p) < 4 {
		return false, false, nil
	}
	switch op := binary.BigEndian.Uint16(p); {
	case op == opERROR:
		e := tftpError{int(binary.BigEndian.Uint16(p[2:])), text(p[4:])}
		if t.m.on("D-17") { // acknowledges even that
			_, _ = t.conn.WriteToUDPAddrPort(ack(0), from)
			_, _ = t.conn.WriteToUDPAddrPort(ack(0), t.server)
		}
		return false, false, e
	case op == opOACK && !t.locked:
		t.server, t.locked = from, true
		if err := t.agree(p[2:]); err != nil {
			return false, false, err
		}
		t.sent = ack(0)
		return false, true, nil
	case op == opDATA:
		return t.data(p, from)
	}
	return false, false, nil
}

func (t *transfer) data(p []byte, from netip.AddrPort) (done, took bool, err error) {
	if binary.BigEndian.Uint16(p[2:]) != t.next {
		return false, false, nil // a repetition
	}
	t.server, t.locked = from, true
	content := p[4:]
	if len(content) > t.size {
		return false, false, t.abort(0, fmt.Errorf("block %d has %d bytes, at most %d were agreed", t.next, len(content), t.size))
	}
	if t.got += int64(len(content)); t.got > maxFile {
		return false, false, t.abort(3, fmt.Errorf("file is longer than %d bytes", maxFile))
	}
	t.sum.Write(content)
	if _, err := t.sink.Write(content); err != nil {
		return false, false, t.abort(0, err)
	}
	t.sent = ack(t.next)
	t.next++
	return len(content) < t.size, true, nil
}

// abort tells the server that the transfer ends, and returns why.
func (t *transfer) abort(code int, why error) error {
	t.refuse(t.server, code)
	return why
}

func (t *transfer) refuse(to netip.AddrPort, code int) {
	p := binary.BigEndian.AppendUint16(nil, opERROR)
	p = binary.BigEndian.AppendUint16(p, uint16(code))
	_, _ = t.conn.WriteToUDPAddrPort(append(p, "transfer ended\x00"...), to)
}

func ack(block uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{0, opACK}, block)
}
