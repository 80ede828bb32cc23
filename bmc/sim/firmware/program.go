package firmware

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// A program is what a machine knows of a boot program after it has come in:
// its beginning, its length and the script that is embedded in it. The rest
// is not kept.
type program struct {
	start  []byte // up to headSize
	size   int64
	script string // "" when none is readable

	tail   []byte // of what came before, for a mark that is cut in two
	within bool
	text   []byte
}

const (
	headSize  = 1024
	maxScript = 64 << 10
)

// mark begins a script.
var mark = []byte("#!ipxe\n")

// Write implements io.Writer.
func (p *program) Write(b []byte) (int, error) {
	if room := headSize - len(p.start); room > 0 {
		p.start = append(p.start, b[:min(room, len(b))]...)
	}
	p.size += int64(len(b))
	p.scan(b)
	return len(b), nil
}

// scan looks for the embedded script: the mark, and text behind it.
func (p *program) scan(b []byte) {
	if p.script != "" {
		return
	}
	if !p.within {
		joined := append(p.tail, b...)
		i := bytes.Index(joined, mark)
		if i < 0 {
			p.tail = append([]byte(nil), joined[max(0, len(joined)-len(mark)+1):]...)
			return
		}
		p.within, p.tail, b = true, nil, joined[i:]
	}
	end := bytes.IndexFunc(b, func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' && r != '\t' && r != '\r' })
	if end < 0 {
		end = len(b)
	}
	p.text = append(p.text, b[:end]...)
	if end == len(b) && len(p.text) <= maxScript {
		return
	}
	p.within = false
	if len(p.text) > len(mark) {
		p.script = string(p.text)
	}
	p.text = nil
}

// whole is the text of what came in, if it is a script.
func (p *program) whole() (string, bool) {
	if p.within && int64(len(p.text)) == p.size && p.size <= maxScript {
		return string(p.text), true
	}
	return "", false
}

const (
	peAMD64  = 0x8664
	peARM64  = 0xaa64
	pe32Plus = 0x20b
	peEFIApp = 10
	maxBIOS  = 512 << 10 // what is free below 640 KiB
)

// check reports why the firmware does not start the program: UEFI wants a
// PE32+ program of its own machine type (UEFI specification 2.1.1), a BIOS
// 16-bit code that fits into base memory.
func (p *program) check(mode string, arm bool) error {
	if mode == uefi {
		return p.checkPE(arm)
	}
	switch {
	case p.size < 512 || p.size > maxBIOS:
		return fmt.Errorf("start boot program: %d bytes, a BIOS takes 512 to %d", p.size, maxBIOS)
	case p.start[0] != 0xea && p.start[0] != 0xe9 && p.start[0] != 0xeb && p.start[0] != 0xfa && p.start[0] != 0xfc:
		return fmt.Errorf("start boot program: it begins with % x, which is no 16-bit code", p.start[:4])
	}
	return nil
}

func (p *program) checkPE(arm bool) error {
	want := uint16(peAMD64)
	if arm {
		want = peARM64
	}
	if len(p.start) < 64 || string(p.start[:2]) != "MZ" {
		return errors.New("start boot program: not a PE file")
	}
	at := int64(binary.LittleEndian.Uint32(p.start[0x3c:]))
	if at+24+70 > int64(len(p.start)) || string(p.start[at:at+4]) != "PE\x00\x00" {
		return errors.New("start boot program: no PE header")
	}
	machine := binary.LittleEndian.Uint16(p.start[at+4:])
	magic, subsystem := binary.LittleEndian.Uint16(p.start[at+24:]), binary.LittleEndian.Uint16(p.start[at+24+68:])
	if machine != want || magic != pe32Plus || subsystem != peEFIApp {
		return fmt.Errorf("start boot program: machine %#x, format %#x, subsystem %d; want %#x, %#x and %d", machine, magic, subsystem, want, pe32Plus, peEFIApp)
	}
	return nil
}
