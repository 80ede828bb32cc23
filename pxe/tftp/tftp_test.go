package tftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pin/tftp/v3"
	"github.com/rs/zerolog"

	"bessemer/pxe"
	"bessemer/store"
	"bessemer/store/storetest"
)

type booter struct{ panic atomic.Bool }

func (b *booter) Boot(_ context.Context, m pxe.Machine) pxe.Boot {
	if b.panic.Load() {
		panic("booter")
	}
	if m.MAC.String() == nodeMAC {
		return pxe.Boot{Node: "n", Run: 3}
	}
	return pxe.Boot{}
}

func (*booter) File(context.Context, string, string) (*pxe.File, error) { return nil, pxe.ErrNoFile }

const nodeMAC = "52:54:00:00:00:01"

func owner(netip.Addr) (net.HardwareAddr, bool) {
	mac, _ := net.ParseMAC(nodeMAC)
	return mac, true
}

func start(t testing.TB, cfg Config) *Server {
	t.Helper()
	cfg.Address, cfg.Log = netip.MustParseAddrPort("127.0.0.1:0"), zerolog.Nop()
	if cfg.Booter == nil {
		cfg.Booter = &booter{}
	}
	if cfg.Recorder == nil {
		cfg.Recorder = &storetest.Recorder{}
	}
	s := New(cfg)
	s.cfg.Address = netip.MustParseAddrPort("127.0.0.1:0") // New makes it 69
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

func get(t testing.TB, s *Server, name string, set func(*tftp.Client)) ([]byte, error) {
	t.Helper()
	c, err := tftp.NewClient(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if set != nil {
		set(c)
	}
	w, err := c.Receive(name, "octet")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	return b.Bytes(), err
}

var content = bytes.Repeat([]byte("0123456789abcdef"), 4000)

func TestTransfers(t *testing.T) {
	s := start(t, Config{Files: map[string][]byte{"ipxe.efi": content, "empty": {}, "block": content[:1024]}})
	for name, want := range map[string][]byte{"ipxe.efi": content, "/ipxe.efi": content, "empty": {}, "block": content[:1024]} {
		for _, size := range []int{0, 512, 1024, 1468, 65464} {
			got, err := get(t, s, name, func(c *tftp.Client) {
				c.RequestTSize(true)
				if size > 0 {
					c.SetBlockSize(size)
				}
			})
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s with block size %d: %d bytes, %v", name, size, len(got), err)
			}
		}
	}
}

func TestNamesLeadNowhere(t *testing.T) {
	s := start(t, Config{Files: map[string][]byte{"ipxe.efi": content}})
	for _, name := range []string{
		"../../etc/passwd", "/etc/passwd", `..\..\etc\passwd`, "", "/", "//ipxe.efi", "./ipxe.efi", "ipxe.efi/", "IPXE.EFI",
		"\xff\xfe", strings.Repeat("a", 400), "pxelinux.cfg/01-52-54-00-00-00-02", "autoexec.ipxe",
	} {
		_, err := get(t, s, name, nil)
		if err == nil || !strings.Contains(err.Error(), "code: 1") && !strings.Contains(err.Error(), "code=1") || !strings.Contains(err.Error(), "file not found") {
			t.Errorf("%q: %v, want a plain not found", name, err)
		}
	}
}

func TestWritesAreRefused(t *testing.T) {
	files := map[string][]byte{"ipxe.efi": content}
	s := start(t, Config{Files: files})
	c, err := tftp.NewClient(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Send("ipxe.efi", "octet")
	if err == nil {
		_, err = w.ReadFrom(strings.NewReader("evil"))
	}
	if err == nil || !strings.Contains(err.Error(), "writing is not allowed") {
		t.Errorf("got %v", err)
	}
	if !bytes.Equal(files["ipxe.efi"], content) {
		t.Error("file was changed")
	}
}

// request sends a raw read request and returns the socket that gets the answer.
func request(t *testing.T, s *Server, fields ...string) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := []byte{0, 1}
	for _, f := range fields {
		p = append(append(p, f...), 0)
	}
	if _, err := conn.WriteToUDPAddrPort(p, s.Addr()); err != nil {
		t.Fatal(err)
	}
	return conn
}

func answer(t *testing.T, conn *net.UDPConn) ([]byte, *net.UDPAddr) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 70000)
	n, from, err := conn.ReadFromUDP(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n], from
}

func TestOptionsAcknowledged(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Files: map[string][]byte{"f": content}})
	tests := []struct {
		name   string
		fields []string
		want   map[string]string // nil: data at once
	}{
		{"none", nil, nil},
		{"EDK2: tsize", []string{"tsize", "0"}, map[string]string{"tsize": "64000"}},
		{"EDK2: block size and window", []string{"blksize", "1468", "windowsize", "4"}, map[string]string{"blksize": "1468"}},
		{"a block size that would be fragmented", []string{"blksize", "8192"}, map[string]string{"blksize": "1468"}},
		{"only unknown options", []string{"multicast", ""}, nil},
		{"upper case is not known, and does no harm", []string{"BLKSIZE", "1024"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn := request(t, s, append([]string{"f", "octet"}, tt.fields...)...)
			p, from := answer(t, conn)
			op := binary.BigEndian.Uint16(p)
			if tt.want == nil {
				if op != 3 || len(p) != 516 {
					t.Errorf("got opcode %d with %d bytes, want DATA with 516", op, len(p))
				}
			} else {
				got := map[string]string{}
				f := strings.Split(strings.TrimSuffix(string(p[2:]), "\x00"), "\x00")
				for i := 0; i+1 < len(f); i += 2 {
					got[f[i]] = f[i+1]
				}
				if op != 6 || len(got) != len(tt.want) || got["blksize"] != tt.want["blksize"] || got["tsize"] != tt.want["tsize"] {
					t.Errorf("got opcode %d, %v, want OACK %v", op, got, tt.want)
				}
			}
			_, _ = conn.WriteToUDP([]byte("\x00\x05\x00\x08abort\x00"), from)
		})
	}
}

// TestSizeProbeIsNoFailure asks for the size and leaves, as EDK2 does.
func TestSizeProbeIsNoFailure(t *testing.T) {
	t.Parallel()
	rec := &storetest.Recorder{}
	s := start(t, Config{Files: map[string][]byte{"ipxe.efi": content}, Owner: owner, Recorder: rec})
	conn := request(t, s, "ipxe.efi", "octet", "tsize", "0")
	_, from := answer(t, conn)
	if _, err := conn.WriteToUDP([]byte("\x00\x05\x00\x08User aborted the transfer\x00"), from); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, s, "ipxe.efi", nil); err != nil {
		t.Fatal(err)
	}
	ms := waitMessages(t, rec, 4)
	var replies []store.Message
	for _, m := range ms {
		if m.Kind == store.Reply {
			replies = append(replies, m)
		} else if m.Label != "Fetch boot program" || m.Node != "n" || m.Run != 3 || m.Wire.Path != "ipxe.efi" {
			t.Errorf("request recorded as %+v", m)
		}
	}
	var probes, whole int
	for _, m := range replies {
		if m.Outcome != store.OK {
			t.Errorf("recorded as failed: %+v", m)
		}
		if m.Detail["size_only"] == true {
			probes++
		} else if m.Wire.Out == int64(len(content)) {
			whole++
		}
	}
	if probes != 1 || whole != 1 {
		t.Errorf("recorded %d probes and %d transfers", probes, whole)
	}
}

// waitMessages waits until n messages are recorded: the last comes after the
// client has its data.
func waitMessages(t *testing.T, rec *storetest.Recorder, n int) []store.Message {
	t.Helper()
	for range 500 {
		if ms := rec.Messages(); len(ms) >= n {
			return ms
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d messages were recorded, want %d", len(rec.Messages()), n)
	return nil
}

func TestOneSourceCannotTakeAll(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Files: map[string][]byte{"f": content}})
	var busy, served int
	for range 30 { // none of them acknowledges
		p, _ := answer(t, request(t, s, "f", "octet"))
		switch {
		case binary.BigEndian.Uint16(p) == 3:
			served++
		case binary.BigEndian.Uint16(p) == 5 && bytes.Contains(p, []byte("busy")):
			busy++
		}
	}
	if served != maxPerSource || busy != 30-maxPerSource {
		t.Errorf("%d transfers run for one source and %d were refused, want %d and %d", served, busy, maxPerSource, 30-maxPerSource)
	}
}

func TestPanicEndsOneTransfer(t *testing.T) {
	b := &booter{}
	b.panic.Store(true)
	s := start(t, Config{Files: map[string][]byte{"f": content}, Owner: owner, Booter: b})
	if _, err := get(t, s, "f", nil); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("got %v", err)
	}
	b.panic.Store(false)
	if _, err := get(t, s, "f", nil); err != nil {
		t.Error(err)
	}
}

func TestStopEndsTransfers(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Files: map[string][]byte{"f": content}})
	conn := request(t, s, "f", "octet")
	_, from := answer(t, conn)
	s.abort()
	if _, err := conn.WriteToUDP([]byte{0, 4, 0, 1}, from); err != nil {
		t.Fatal(err)
	}
	if p, _ := answer(t, conn); binary.BigEndian.Uint16(p) != 5 {
		t.Errorf("got opcode %d after the server stopped, want ERROR", binary.BigEndian.Uint16(p))
	}
}

func TestOpenSaysWhatToDo(t *testing.T) {
	s := start(t, Config{})
	for addr, want := range map[string]string{
		s.Addr().String(): "in use by another program",
		"192.0.2.1:6969":  "not an address of this host",
	} {
		err := New(Config{Address: netip.MustParseAddrPort(addr), Log: zerolog.Nop()}).Open()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", addr, err, want)
		}
	}
}

func FuzzLookup(f *testing.F) {
	files := map[string][]byte{"ipxe.efi": content, "undionly.kpxe": content}
	for _, n := range []string{"ipxe.efi", "/ipxe.efi", "../x", "", "\xff", "//"} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, _, ok := lookup(files, name)
		if ok != (name == "ipxe.efi" || name == "/ipxe.efi" || name == "undionly.kpxe" || name == "/undionly.kpxe") {
			t.Errorf("%q: found %v as %q", name, ok, got)
		}
		if len(shown(name)) > 3*67 {
			t.Errorf("%d bytes are shown", len(shown(name)))
		}
	})
}

func BenchmarkTFTP(b *testing.B) {
	big := bytes.Repeat(content, 256)
	s := start(b, Config{Files: map[string][]byte{"big": big}})
	b.SetBytes(int64(len(big)))
	for b.Loop() {
		got, err := get(b, s, "big", func(c *tftp.Client) { c.SetBlockSize(blockSize) })
		if err != nil || len(got) != len(big) {
			b.Fatal(len(got), err)
		}
	}
}
