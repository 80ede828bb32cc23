package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"bessemer/agent/hw"
)

// A FAT is a FAT12, 16 or 32 file system that is only read, as far as finding
// boot loaders needs. It comes out of an image and may be damaged on purpose
// (a chain of clusters that is a loop makes common libraries eat all memory),
// so everything that is followed is bounded.
type FAT struct {
	r            io.ReaderAt
	bits         int
	clusterBytes int64
	clusters     uint32 // cluster numbers are below this
	fat, data    int64  // offsets of the first table and of cluster 2
	root         int64  // offset of the root directory, FAT12 and 16
	rootBytes    int64
	rootCluster  uint32 // FAT32
}

const (
	maxFATFile = 1 << 20 // largest file that is read
	maxFATDir  = 2 << 20 // largest directory: 65536 entries
)

var errNoFAT = errors.New("there is no FAT file system")

// OpenFAT opens the file system in a partition.
func OpenFAT(d hw.Disk, p Partition) (*FAT, error) {
	off, size := p.Offset(d.SectorSize()), p.Size(d.SectorSize())
	if off < 0 || size < 512 || off+size > d.Size() {
		return nil, fmt.Errorf("open FAT file system: partition %d is not within the disk", p.Number)
	}
	sec := io.NewSectionReader(d, off, size)
	boot := make([]byte, 512)
	if _, err := sec.ReadAt(boot, 0); err != nil {
		return nil, fmt.Errorf("open FAT file system: %w", err)
	}
	f, err := parseFAT(boot, size)
	if err != nil {
		return nil, fmt.Errorf("open FAT file system: %w", err)
	}
	f.r = sec
	return f, nil
}

// parseFAT reads a boot sector. The kinds are told apart by the number of
// clusters, the only way there is (Microsoft's FAT specification, 3.5).
func parseFAT(b []byte, size int64) (*FAT, error) {
	le := binary.LittleEndian
	bps, spc := int64(le.Uint16(b[11:])), int64(b[13])
	reserved, fats, roots := int64(le.Uint16(b[14:])), int64(b[16]), int64(le.Uint16(b[17:]))
	total, perFAT := int64(le.Uint16(b[19:])), int64(le.Uint16(b[22:]))
	if total == 0 {
		total = int64(le.Uint32(b[32:]))
	}
	f := &FAT{}
	if perFAT == 0 {
		f.bits, perFAT, f.rootCluster = 32, int64(le.Uint32(b[36:])), le.Uint32(b[44:])
	}
	if b[510] != 0x55 || b[511] != 0xaa || bps < 512 || bps > 4096 || bps&(bps-1) != 0 ||
		spc == 0 || spc&(spc-1) != 0 || reserved == 0 || fats == 0 || perFAT == 0 {
		return nil, errNoFAT
	}
	rootSectors := (roots*32 + bps - 1) / bps
	first := reserved + fats*perFAT + rootSectors
	if first >= total || total*bps > size {
		return nil, fmt.Errorf("%w: its boot sector describes more than the partition", errNoFAT)
	}
	n := (total - first) / spc
	switch {
	case f.bits == 32:
	case n < 4085:
		f.bits = 12
	default:
		f.bits = 16
	}
	f.clusters = uint32(min(n, perFAT*bps*8/int64(f.bits)-2)) + 2
	f.clusterBytes, f.fat, f.data = spc*bps, reserved*bps, first*bps
	f.root, f.rootBytes = (first-rootSectors)*bps, roots*32
	return f, nil
}

// next is the cluster after c in its chain; ok is false at the end.
func (f *FAT) next(c uint32) (uint32, bool, error) {
	var b [4]byte
	at, n := f.fat+int64(c)*int64(f.bits)/8, min(f.bits/8+1, 4)
	if _, err := f.r.ReadAt(b[:n], at); err != nil && !errors.Is(err, io.EOF) {
		return 0, false, err
	}
	v := binary.LittleEndian.Uint32(b[:])
	switch f.bits {
	case 12:
		v = v >> (4 * (c & 1)) & 0xfff
	case 16:
		v &= 0xffff
	default:
		v &= 0x0fffffff
	}
	return v, v >= 2 && v < f.clusters, nil
}

// chain reads the content of a chain of clusters, at most limit bytes.
func (f *FAT) chain(c uint32, limit int64) ([]byte, error) {
	var out []byte
	for ok := c >= 2 && c < f.clusters; ok && int64(len(out)) < limit; {
		b := make([]byte, min(f.clusterBytes, limit-int64(len(out))))
		if _, err := f.r.ReadAt(b, f.data+int64(c-2)*f.clusterBytes); err != nil {
			return nil, fmt.Errorf("read cluster %d: %w", c, err)
		}
		out = append(out, b...)
		var err error
		if c, ok, err = f.next(c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// entry is a file or directory.
type entry struct {
	name    string
	dir     bool
	cluster uint32
	size    uint32
}

func (f *FAT) rootDir() ([]byte, error) {
	if f.bits == 32 {
		return f.chain(f.rootCluster, maxFATDir)
	}
	b := make([]byte, f.rootBytes)
	_, err := f.r.ReadAt(b, f.root)
	return b, err
}

// list reads a directory; nil is the root.
func (f *FAT) list(e *entry) ([]entry, error) {
	var b []byte
	var err error
	if e == nil || e.cluster == 0 {
		b, err = f.rootDir()
	} else {
		b, err = f.chain(e.cluster, maxFATDir)
	}
	if err != nil {
		return nil, err
	}
	return parseDir(b), nil
}

// walk finds a path; case is irrelevant. It returns the path as it is spelled
// on the file system.
func (f *FAT) walk(path string) (e *entry, spelled string, err error) {
	for _, want := range strings.Split(strings.Trim(path, "/"), "/") {
		if want == "" {
			continue
		}
		if e != nil && !e.dir {
			return nil, "", fmt.Errorf("%s is not a directory", spelled)
		}
		es, err := f.list(e)
		if err != nil {
			return nil, "", err
		}
		found := false
		for _, c := range es {
			if strings.EqualFold(c.name, want) {
				e, spelled, found = &c, spelled+"/"+c.name, true
				break
			}
		}
		if !found {
			return nil, "", fmt.Errorf("%s/%s is not there", spelled, want)
		}
	}
	return e, spelled, nil
}

// Names lists a directory; one that is not there is empty.
func (f *FAT) Names(dir string) []string {
	e, _, err := f.walk(dir)
	if err != nil || e != nil && !e.dir {
		return nil
	}
	es, err := f.list(e)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range es {
		out = append(out, e.name)
	}
	return out
}

// Find returns a file's path as it is spelled on the file system.
func (f *FAT) Find(path string) (string, bool) {
	e, spelled, err := f.walk(path)
	return spelled, err == nil && e != nil && !e.dir
}

// ReadFile reads a file of at most 1 MiB.
func (f *FAT) ReadFile(path string) ([]byte, error) {
	e, spelled, err := f.walk(path)
	if err != nil {
		return nil, err
	}
	if e == nil || e.dir || e.size > maxFATFile {
		return nil, fmt.Errorf("%s is a directory or too large", spelled)
	}
	b, err := f.chain(e.cluster, int64(e.size))
	if err == nil && uint32(len(b)) < e.size {
		err = fmt.Errorf("%s is damaged: %w", spelled, io.ErrUnexpectedEOF)
	}
	return b, err
}
