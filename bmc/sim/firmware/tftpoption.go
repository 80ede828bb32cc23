package firmware

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A tftpOption is one of a read request (RFC 2347).
type tftpOption struct {
	name  string
	value int
}

// options are what the ROM asks for with a file.
func (m *machine) options() []tftpOption {
	block := 1456 // what BIOS ROMs take
	if m.uefi() {
		block = blockFrame
	}
	switch {
	case m.on("D-13"): // shim knows no options
		return nil
	case m.on("D-15"):
		block = 8192
	}
	o := []tftpOption{{m.spelled("blksize"), block}}
	if !m.on("D-16") {
		o = append(o, tftpOption{m.spelled("tsize"), 0})
	}
	return o
}

// spelled is an option's name as this ROM writes it (D-18).
func (m *machine) spelled(name string) string {
	if m.on("D-18") {
		return strings.ToUpper(name)
	}
	return name
}

// request is a read request.
func request(name string, options []tftpOption) []byte {
	p := binary.BigEndian.AppendUint16(nil, opRRQ)
	p = append(p, name+"\x00octet\x00"...)
	for _, o := range options {
		p = append(p, o.name+"\x00"+strconv.Itoa(o.value)+"\x00"...)
	}
	return p
}

// agree reads an OACK: no more than was asked for. A server may lower the block
// size and tells the size of the file. To EFI firmware an option that it did
// not ask for is an error (D-16), others pass over it.
func (t *transfer) agree(raw []byte) error {
	words := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
	if len(words)%2 != 0 {
		return t.abort(codeOption, errors.New("option acknowledgement is cut off"))
	}
	for pair := range slices.Chunk(words, 2) {
		name := strings.ToLower(pair[0])
		i := slices.IndexFunc(t.asked, func(o tftpOption) bool { return strings.EqualFold(o.name, name) })
		if i < 0 {
			if t.m.on("D-16") {
				return t.abort(codeOption, fmt.Errorf("server acknowledges option %q, which was not asked for", name))
			}
			continue
		}
		n, err := strconv.ParseUint(pair[1], 10, 31)
		if err != nil {
			return t.abort(codeOption, fmt.Errorf("option %q is acknowledged as %q", name, pair[1]))
		}
		if err := t.set(name, int(n), t.asked[i].value); err != nil {
			return err
		}
	}
	return nil
}

func (t *transfer) set(name string, n, asked int) error {
	switch name {
	case "blksize":
		if n < 8 || n > asked {
			return t.abort(codeOption, fmt.Errorf("block size %d was asked for, %d is acknowledged", asked, n))
		}
		t.size = n
		t.buf = make([]byte, max(maxFrame, n+4))
	case "tsize":
		t.total = int64(n)
		if s, ok := t.sink.(sizeOnly); ok {
			*s.size = t.total
			return t.abort(0, errSize) // as EDK2 does
		}
	}
	return nil
}

// loadTFTP fetches the boot program that an answer names and looks whether it
// is one. A ROM tries three times.
func (m *machine) loadTFTP(ctx context.Context, a answer) (program, error) {
	if m.on("D-17") {
		_, err := m.tftp(ctx, "no-such-file", m.options(), &program{})
		m.say("PXE: %v", err)
	}
	for try := 1; ; try++ {
		p, err := m.loadOnce(ctx, a)
		if err == nil || try == 3 || ctx.Err() != nil {
			return p, err
		}
		m.say("PXE-E32: %s", err)
		if err := m.wait(ctx, 2*time.Second); err != nil {
			return p, err
		}
	}
}

func (m *machine) loadOnce(ctx context.Context, a answer) (p program, err error) {
	size := int64(-1)
	if m.uefi() && !m.on("D-13") {
		if size, err = m.sizeOf(ctx, a.file); err != nil {
			return p, fmt.Errorf("pxe rom: %w", err)
		}
	}
	f, err := m.tftp(ctx, a.file, m.options(), &p)
	if err == nil && size >= 0 && size != f.Size {
		err = fmt.Errorf("fetch %s: it has %d bytes, %d were announced", f.URL, f.Size, size)
	}
	if err == nil {
		err = p.check(m.Mode, m.ARM64)
	}
	if err != nil {
		return p, fmt.Errorf("pxe rom: %w", err)
	}
	m.files = append(m.files, f)
	m.say("PXE: %s, %d bytes", f.URL, f.Size)
	return p, nil
}
