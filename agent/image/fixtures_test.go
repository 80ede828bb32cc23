package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"bessemer/agent/hw"
	"bessemer/agent/wire"
)

// memFile is an image file in memory, as a source that counts and can fail.
type memFile struct {
	data   []byte
	second []byte // what a second reading gives; nil: the same
	ranges bool
	hide   bool  // do not tell the size
	fail   error // after half of the data

	opened int
	*bytes.Reader
}

func (m *memFile) Open(context.Context) (File, error) {
	m.opened++
	return &memFile{data: m.data, second: m.second, ranges: m.ranges, hide: m.hide, fail: m.fail, Reader: bytes.NewReader(m.data)}, nil
}

func (m *memFile) Read(p []byte) (int, error) {
	if m.fail != nil && m.Len() < len(m.data)/2 {
		return 0, m.fail
	}
	return m.Reader.Read(p[:min(len(p), 100_001)])
}

func (m *memFile) Close() error { return nil }

func (m *memFile) Size() int64 {
	if m.hide {
		return -1
	}
	return int64(len(m.data))
}

func (m *memFile) Ranges(context.Context) io.ReaderAt {
	if !m.ranges {
		return nil
	}
	if m.second != nil {
		return bytes.NewReader(m.second)
	}
	return bytes.NewReader(m.data)
}

// newDisk is a fake disk that is full of old data.
func newDisk(t testing.TB, size int64) (hw.Disk, *hw.Fake) {
	path := filepath.Join(t.TempDir(), "sda")
	old := bytes.Repeat([]byte("old data! "), int(size/10+1))[:size]
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	m := &hw.Fake{
		Hardware: wire.Inventory{Disks: []wire.Disk{{Name: "/dev/sda", Size: size}}},
		Files:    map[string]string{"/dev/sda": path},
	}
	d, err := m.OpenDisk("/dev/sda", true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, m
}

func content(t *testing.T, m *hw.Fake) []byte {
	b, err := os.ReadFile(m.Files["/dev/sda"])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sha(b []byte) Checksum {
	s := sha256.Sum256(b)
	return Checksum{"sha256", hex.EncodeToString(s[:])}
}

// diskImage is a disk image with data, holes, and a ragged end.
func diskImage(size int) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{2})
	for off := 0; off < size; off += 700_000 {
		n := min(260_000, size-off)
		r.Read(b[off : off+n/2])
		copy(b[off+n/2:off+n], strings.Repeat("compressible ", n/13))
	}
	copy(b[510:], "\x55\xaa")
	return b
}

func packGz(b []byte) []byte {
	var o bytes.Buffer
	w := gzip.NewWriter(&o)
	w.Write(b)
	w.Close()
	return o.Bytes()
}

func packZst(b []byte) []byte {
	e, _ := zstd.NewWriter(nil)
	return e.EncodeAll(b, nil)
}

func packXz(b []byte) []byte {
	var o bytes.Buffer
	w, _ := xz.NewWriter(&o)
	w.Write(b)
	w.Close()
	return o.Bytes()
}

var packers = map[string]func([]byte) []byte{
	"": func(b []byte) []byte { return b }, "gz": packGz, "zst": packZst, "xz": packXz,
}
