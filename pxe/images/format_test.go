package images

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// qcow2 is the header of a good version 3 image of 1 GiB, as bytes to spoil.
func qcow2(spoil ...func(b []byte)) []byte {
	b := make([]byte, 4<<16)
	be := binary.BigEndian
	copy(b, qcow2Magic)
	be.PutUint32(b[4:], 3)
	be.PutUint32(b[20:], 16)
	be.PutUint64(b[24:], 1<<30)
	be.PutUint32(b[36:], 2)
	be.PutUint64(b[40:], 3<<16)
	be.PutUint64(b[48:], 1<<16)
	be.PutUint32(b[56:], 1)
	be.PutUint32(b[96:], 4)
	be.PutUint32(b[100:], 112)
	for _, s := range spoil {
		s(b)
	}
	return b
}

func put32(at int, v uint32) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) }
}

func put64(at int, v uint64) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint64(b[at:], v) }
}

func TestQcow2Header(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    []byte
		want string // part of the error, "" for none
	}{
		{"good", qcow2(), ""},
		{"version 2", qcow2(put32(4, 2), put64(72, 0), put32(96, 0), put32(100, 0)), ""},
		{"dirty", qcow2(put64(72, qcowDirty)), ""},
		{"zstd clusters", qcow2(put64(72, qcowCompression), func(b []byte) { b[104] = 1 }), ""},
		{"extended L2", qcow2(put64(72, qcowExtendedL2), put32(36, 4)), ""},
		{"version 4", qcow2(put32(4, 4)), "version 4"},
		{"version 1", qcow2(put32(4, 1)), "version 1"},
		{"backing file", qcow2(put64(8, 512), put32(16, 10)), "backing file"},
		{"backing file of no length", qcow2(put64(8, 512)), "backing file"},
		{"external data file", qcow2(put64(72, qcowDataFile)), "another file"},
		{"name of a data file without the bit", qcow2(put32(112, 0x44415441), put32(116, 8)), "another file"},
		{"the same behind another extension", qcow2(put32(112, 0xE2792ACA), put32(116, 3), put32(128, 0x44415441), put32(132, 8)), "another file"},
		{"AES", qcow2(put32(32, 1)), "encrypted"},
		{"LUKS", qcow2(put32(32, 2)), "encrypted"},
		{"corrupt", qcow2(put64(72, qcowCorrupt)), "corrupt"},
		{"unknown feature", qcow2(put64(72, 1<<63)), "not known"},
		{"clusters of one byte", qcow2(put32(20, 0)), "clusters"},
		{"clusters of 2^63", qcow2(put32(20, 63)), "clusters"},
		{"no disk", qcow2(put64(24, 0)), "disk of 0 bytes"},
		{"disk of 8 EiB", qcow2(put64(24, 1<<63)), "disk of"},
		{"disk of minus one", qcow2(put64(24, ^uint64(0))), "disk of"},
		{"L1 of 32 GiB", qcow2(put32(36, ^uint32(0))), "L1 entries"},
		{"L1 too small", qcow2(put32(36, 1)), "too few"},
		{"L1 unaligned", qcow2(put64(40, 512)), "do not begin"},
		{"no L1", qcow2(put64(40, 0)), "do not begin"},
		{"L1 behind the end", qcow2(put64(40, 1<<40)), "cut short"},
		{"L1 at the last address", qcow2(put64(40, 0xFFFFFFFFFFFF0000)), "cut short"},
		{"refcount order", qcow2(put32(96, 7)), "no sense"},
		{"snapshots", qcow2(put32(60, ^uint32(0))), "no sense"},
		{"refcount table", qcow2(put32(56, ^uint32(0))), "no sense"},
		{"short header", qcow2(put32(100, 72)), "header of"},
		{"long header", qcow2(put32(100, ^uint32(7))), "header of"},
		{"unknown compression", qcow2(put64(72, qcowCompression), func(b []byte) { b[104] = 9 }), "compressed"},
		{"compression without its bit", qcow2(func(b []byte) { b[104] = 1 }), "compressed"},
		{"a boot sector as well", qcow2(func(b []byte) { b[510], b[511] = 0x55, 0xAA }), "boot sector"},
		{"truncated", qcow2()[:100], "ends within"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, err := inspect(bytes.NewReader(tt.b), int64(len(tt.b)))
			if tt.want == "" {
				if err != nil || k != (kind{format: "qcow2", virtual: 1 << 30}) {
					t.Errorf("inspect = %+v, %v", k, err)
				}
				return
			}
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("inspect = %+v, %v; want an error with %q", k, err, tt.want)
			}
		})
	}
}

func pack(t testing.TB, how string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w interface {
		Write([]byte) (int, error)
		Close() error
	}
	var err error
	switch how {
	case "gz":
		w = gzip.NewWriter(&b)
	case "zst":
		w, err = zstd.NewWriter(&b)
	case "xz":
		w, err = xz.NewWriter(&b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPacked(t *testing.T) {
	raw := random(1 << 20)
	for _, how := range []string{"gz", "zst", "xz"} {
		t.Run(how, func(t *testing.T) {
			for _, tt := range []struct {
				name    string
				content []byte
				want    kind
				ok      bool
			}{
				{"raw", raw, kind{format: "raw", packed: how}, true},
				{"zeros", make([]byte, 8<<20), kind{format: "raw", packed: how}, true},
				{"qcow2", qcow2(), kind{format: "qcow2", packed: how, virtual: 1 << 30}, true},
				{"qcow2 with a backing file", qcow2(put64(8, 512)), kind{}, false},
				{"packed again", pack(t, "gz", raw), kind{}, false},
				{"nothing", nil, kind{}, false},
			} {
				b := pack(t, how, tt.content)
				k, err := inspect(bytes.NewReader(b), int64(len(b)))
				if tt.ok && (err != nil || k != tt.want) {
					t.Errorf("%s: inspect = %+v, %v; want %+v", tt.name, k, err, tt.want)
				}
				if !tt.ok && !errors.Is(err, ErrFormat) {
					t.Errorf("%s: inspect = %+v, %v; want ErrFormat", tt.name, k, err)
				}
			}
			if _, err := inspectHead(pack(t, how, raw)[:12], 12); !errors.Is(err, ErrFormat) {
				t.Errorf("broken off at once: %v, want ErrFormat", err)
			}
		})
	}
}

func TestForeign(t *testing.T) {
	vdi := make([]byte, 512)
	copy(vdi[64:], "\x7f\x10\xda\xbe")
	for name, head := range map[string]string{
		"VMDK": "KDMV\x01\x00\x00\x00", "VHDX": "vhdxfile", "VHD": "conectix", "VDI": string(vdi),
		"zip": "PK\x03\x04", "bzip2": "BZh91AY", "HTML": "<html>", "LFS": "version https://git-lfs.github.com/spec/v1",
	} {
		if _, err := inspectHead([]byte(head), int64(len(head))); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, want ErrFormat", name, err)
		}
	}
}

// TestQemuImages holds that what qemu-img writes is accepted.
func TestQemuImages(t *testing.T) {
	qemu, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip("needs qemu-img")
	}
	dir := t.TempDir()
	for name, options := range map[string]string{
		"v2": "compat=0.10", "v3": "compat=1.1", "small clusters": "cluster_size=512", "large clusters": "cluster_size=2M",
		"zstd": "compression_type=zstd", "extended L2": "extended_l2=on,cluster_size=128k",
	} {
		path := filepath.Join(dir, "disk")
		if out, err := exec.Command(qemu, "create", "-q", "-f", "qcow2", "-o", options, path, "3G").CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if k, err := inspect(f, info.Size()); err != nil || k.virtual != 3<<30 {
			t.Errorf("%s: inspect = %+v, %v", name, k, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzInspect(f *testing.F) {
	f.Add(qcow2()[:1024])
	f.Add([]byte("\x1f\x8b\x08"))
	for _, how := range []string{"gz", "zst", "xz"} {
		f.Add(pack(f, how, qcow2()[:1024]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := inspect(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		if k.virtual < 0 || k.virtual > maxVirtual || k.format != "raw" && k.format != "qcow2" {
			t.Errorf("inspect = %+v", k)
		}
	})
}
