package tinyos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
)

// fat is a FAT file system that is read as firmware reads it (Microsoft's FAT
// specification). Chains are followed no further than the file is long.
type fat struct {
	r        io.ReaderAt
	bits     int
	cluster  int64  // bytes
	clusters uint32 // numbers are below this
	table    []byte
	data     int64 // offset of cluster 2
	root     []byte
	sector   int64
	label    string
}

const maxFile = 64 << 20

var errNoFAT = errors.New("no FAT file system")

func openFAT(s *io.SectionReader) (*fat, error) {
	boot := make([]byte, 512)
	if _, err := s.ReadAt(boot, 0); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if boot[510] != 0x55 || boot[511] != 0xaa || boot[0] != 0xeb && boot[0] != 0xe9 {
		return nil, errNoFAT
	}
	f := &fat{r: s, sector: int64(le.Uint16(boot[11:]))}
	per, reserved, tables := int64(boot[13]), int64(le.Uint16(boot[14:])), int64(boot[16])
	rootBytes := int64(le.Uint16(boot[17:])) * 32
	total, perTable := int64(le.Uint16(boot[19:])), int64(le.Uint16(boot[22:]))
	if total == 0 {
		total = int64(le.Uint32(boot[32:]))
	}
	label, rootCluster := boot[43:54], uint32(0)
	if perTable == 0 {
		perTable, rootCluster, label = int64(le.Uint32(boot[36:])), le.Uint32(boot[44:]), boot[71:82]
	}
	if f.sector < 512 || f.sector > 4096 || per == 0 || reserved == 0 || tables == 0 || total*f.sector > s.Size() || perTable*f.sector > s.Size() {
		return nil, errNoFAT
	}
	f.label = strings.TrimRight(string(label), " ")
	f.cluster = per * f.sector
	rootAt := (reserved + tables*perTable) * f.sector
	f.data = rootAt + (rootBytes+f.sector-1)/f.sector*f.sector
	n := (total*f.sector - f.data) / f.cluster
	switch {
	case rootCluster != 0:
		f.bits = 32
	case n < 4085:
		f.bits = 12
	default:
		f.bits = 16
	}
	f.clusters = uint32(n) + 2
	f.table = make([]byte, perTable*f.sector)
	if _, err := s.ReadAt(f.table, reserved*f.sector); err != nil {
		return nil, fmt.Errorf("read FAT: %w", err)
	}
	var err error
	if f.bits == 32 {
		f.root, err = f.chain(rootCluster, 1<<20)
	} else {
		f.root = make([]byte, rootBytes)
		_, err = s.ReadAt(f.root, rootAt)
	}
	return f, err
}

// chain reads a chain of clusters, at most so many bytes.
func (f *fat) chain(c uint32, limit int64) (out []byte, err error) {
	for c >= 2 && c < f.clusters && int64(len(out)) < limit {
		b := make([]byte, min(f.cluster, limit-int64(len(out))))
		if _, err := f.r.ReadAt(b, f.data+int64(c-2)*f.cluster); err != nil {
			return nil, fmt.Errorf("read cluster %d: %w", c, err)
		}
		out = append(out, b...)
		if c, err = f.next(c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (f *fat) next(c uint32) (uint32, error) {
	at := int(c) * f.bits / 8
	if at+4 > len(f.table) {
		var tail [4]byte
		if at >= len(f.table) {
			return 0, fmt.Errorf("cluster %d is not in the table", c)
		}
		copy(tail[:], f.table[at:])
		return f.value(binary.LittleEndian.Uint32(tail[:]), c), nil
	}
	return f.value(binary.LittleEndian.Uint32(f.table[at:]), c), nil
}

func (f *fat) value(v, c uint32) uint32 {
	switch f.bits {
	case 12:
		return v >> (4 * (c & 1)) & 0xfff
	case 16:
		return v & 0xffff
	}
	return v & 0x0fffffff
}

// read reads a file; case is irrelevant.
func (f *fat) read(path string) ([]byte, error) {
	dir, parts := f.root, strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		e := find(dir, part)
		if e == nil {
			return nil, fmt.Errorf("%s %w", strings.Join(parts[:i+1], "/"), errAbsent)
		}
		le := binary.LittleEndian
		first, size := uint32(le.Uint16(e[20:]))<<16|uint32(le.Uint16(e[26:])), int64(le.Uint32(e[28:]))
		if isDir := e[11]&0x10 != 0; isDir != (i < len(parts)-1) {
			return nil, fmt.Errorf("%s is of the wrong kind", strings.Join(parts[:i+1], "/"))
		}
		if i < len(parts)-1 {
			size = 1 << 20
		}
		if size > maxFile {
			return nil, fmt.Errorf("%s is %d bytes", path, size)
		}
		b, err := f.chain(first, size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if i == len(parts)-1 {
			if int64(len(b)) < size {
				return nil, fmt.Errorf("%s is cut short", path)
			}
			return b, nil
		}
		dir = b
	}
	return nil, fmt.Errorf("%s %w", path, errAbsent)
}

// find returns a directory's entry by its long or short name.
func find(dir []byte, name string) []byte {
	var long []uint16
	for ; len(dir) >= 32 && dir[0] != 0; dir = dir[32:] {
		switch e := dir[:32]; {
		case e[0] == 0xe5:
			long = nil
		case e[11] == 0x0f:
			var part []uint16
			for _, at := range []int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30} {
				if c := binary.LittleEndian.Uint16(e[at:]); c != 0 && c != 0xffff {
					part = append(part, c)
				}
			}
			long = append(part, long...)
		case e[11]&0x08 != 0:
			long = nil
		default:
			short := strings.TrimRight(string(e[:8]), " ")
			if ext := strings.TrimRight(string(e[8:11]), " "); ext != "" {
				short += "." + ext
			}
			if strings.EqualFold(short, name) || strings.EqualFold(string(utf16.Decode(long)), name) {
				return e
			}
			long = nil
		}
	}
	return nil
}
