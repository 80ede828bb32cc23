package disk

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// parseDir reads directory entries with their long names.
func parseDir(b []byte) []entry {
	var out []entry
	var long []uint16 // of the entries before, in order
	for ; len(b) >= 32 && b[0] != 0; b = b[32:] {
		attr := b[11]
		switch {
		case b[0] == 0xe5: // deleted
			long = nil
		case attr&0x3f == 0x0f:
			if b[0]&0x40 != 0 {
				long = nil
			}
			long = append(longPart(b), long...)
			if len(long) > 260 {
				long = nil
			}
		case attr&0x08 != 0: // the volume's label
			long = nil
		default:
			if e, ok := fatEntry(b, long); ok {
				out = append(out, e)
			}
			long = nil
		}
	}
	return out
}

// longPlaces are the offsets of the 13 characters in a long name's entry.
var longPlaces = []int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30}

func longPart(b []byte) []uint16 {
	var out []uint16
	for _, at := range longPlaces {
		c := binary.LittleEndian.Uint16(b[at:])
		if c == 0 || c == 0xffff {
			break
		}
		out = append(out, c)
	}
	return out
}

func fatEntry(b []byte, long []uint16) (entry, bool) {
	le := binary.LittleEndian
	e := entry{
		name: shortName(b), dir: b[11]&0x10 != 0, size: le.Uint32(b[28:]),
		cluster: uint32(le.Uint16(b[20:]))<<16 | uint32(le.Uint16(b[26:])),
	}
	if len(long) > 0 {
		e.name = string(utf16.Decode(long))
	}
	return e, e.name != "." && e.name != ".." && e.name != "" && !strings.ContainsAny(e.name, "/\\\x00")
}

// shortName is "BOOTX64.EFI" of "BOOTX64 EFI". Windows and Linux keep lower
// case in two bits of byte 12.
func shortName(b []byte) string {
	stem, ext := strings.TrimRight(string(b[:8]), " "), strings.TrimRight(string(b[8:11]), " ")
	if b[12]&0x08 != 0 {
		stem = strings.ToLower(stem)
	}
	if b[12]&0x10 != 0 {
		ext = strings.ToLower(ext)
	}
	if ext != "" {
		return stem + "." + ext
	}
	return stem
}
