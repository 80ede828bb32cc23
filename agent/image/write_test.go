package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

func TestWrite(t *testing.T) {
	img := diskImage(3<<20 + 512*3)
	files := map[string][]byte{
		"raw":            img,
		"qcow2 v2":       qcowFile{version: 2, data: img}.bytes(),
		"qcow2 v3":       qcowFile{data: img}.bytes(),
		"qcow2 zlib":     qcowFile{data: img, compress: "zlib"}.bytes(),
		"qcow2 v2 zlib":  qcowFile{version: 2, data: img, compress: "zlib"}.bytes(),
		"qcow2 zstd":     qcowFile{data: img, compress: "zstd"}.bytes(),
		"qcow2 512 B":    qcowFile{data: img, bits: 9}.bytes(),
		"qcow2 2 MiB":    qcowFile{data: img, bits: 21}.bytes(),
		"qcow2 2 MiB zl": qcowFile{data: img, bits: 21, compress: "zlib"}.bytes(),
	}
	for name, file := range files {
		for packing, pack := range packers {
			if packing == "xz" && name != "raw" && name != "qcow2 v3" {
				continue // slow to make
			}
			t.Run(name+"."+packing, func(t *testing.T) {
				packed := pack(file)
				d, m := newDisk(t, 12<<20)
				res, err := Write(t.Context(), &memFile{data: packed}, d, Options{Checksum: sha(packed)})
				if err != nil {
					t.Fatal(err)
				}
				if res.Size != int64(len(img)) || res.FileSize != int64(len(packed)) || string(res.Packing) != packing {
					t.Errorf("result %+v, want size %d, file size %d, packing %q", res, len(img), len(packed), packing)
				}
				checkDisk(t, m, img)
			})
		}
	}
}

// checkDisk compares the disk with the image, and demands that the old backup
// of a partition table is gone.
func checkDisk(t *testing.T, m *hw.Fake, img []byte) {
	t.Helper()
	got := content(t, m)
	if !bytes.Equal(got[:len(img)], img) {
		for i := range img {
			if got[i] != img[i] {
				t.Fatalf("the disk differs from the image first at byte %d of %d: %x, want %x", i, len(img), got[i], img[i])
			}
		}
	}
	if !isZero(got[max(len(img), len(got)-holdBack):]) {
		t.Error("the end of the disk still holds old data")
	}
}

// Where a qcow2 file is kept must not change what is written.
func TestWriteQcow2FromEveryStore(t *testing.T) {
	img := diskImage(9 << 20)
	file := qcowFile{data: img}.bytes()
	for _, tt := range []struct {
		name   string
		disk   int64
		memory int64
		src    memFile
		want   error
	}{
		{"memory", 9 << 20, 32 << 20, memFile{data: file}, nil},
		{"disk", 32 << 20, 2 << 20, memFile{data: file}, nil},
		{"disk, size unknown", 32 << 20, 2 << 20, memFile{data: file, hide: true}, nil},
		{"disk, from the first byte", 32 << 20, 1, memFile{data: file}, nil},
		{"packed, on disk", 32 << 20, 1 << 20, memFile{data: packGz(file)}, nil},
		{"twice", 9 << 20, 1 << 20, memFile{data: file, ranges: true}, nil},
		{"no room", 9 << 20, 1 << 20, memFile{data: file}, ErrTooSmall},
		{"packed, no room", 9 << 20, 1 << 20, memFile{data: packGz(file), ranges: true}, ErrTooSmall},
		{"size unknown, no room", 9 << 20, 1 << 20, memFile{data: file, hide: true, ranges: true}, ErrTooSmall},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, m := newDisk(t, tt.disk)
			_, err := Write(t.Context(), &tt.src, d, Options{Checksum: sha(tt.src.data), Memory: tt.memory})
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err != nil {
				return
			}
			checkDisk(t, m, img)
			if bytes.Contains(content(t, m)[len(img):], []byte(qcowMagic)) {
				t.Error("the image file was left on the disk")
			}
		})
	}
}

// A file that changes between the two readings must never be written.
func TestSecondReadingMustEqualTheFirst(t *testing.T) {
	file := qcowFile{data: diskImage(9 << 20)}.bytes()
	for _, at := range []int{25, 70_000, 140_000, len(file) - 1} {
		other := bytes.Clone(file)
		other[at] ^= 1
		d, m := newDisk(t, 9<<20)
		_, err := Write(t.Context(), &memFile{data: file, second: other, ranges: true}, d, Options{Checksum: sha(file), Memory: 1})
		if !errors.Is(err, ErrChecksum) {
			t.Errorf("byte %d: %v, want ErrChecksum", at, err)
		}
		checkUnbootable(t, m)
	}
}

func checkUnbootable(t *testing.T, m *hw.Fake) {
	t.Helper()
	got := content(t, m)
	if bytes.HasPrefix(got, []byte("old data!")) {
		return // untouched
	}
	if !isZero(got[:64<<10]) {
		t.Error("after a failed write the disk begins with something")
	}
}

func TestNeverSuccessWithWrongBytes(t *testing.T) {
	img := diskImage(3 << 20)
	for name, file := range map[string][]byte{
		"raw": img, "gz": packGz(img), "zst": packZst(img), "xz": packXz(img),
		"qcow2": qcowFile{data: img, compress: "zlib"}.bytes(),
	} {
		good := sha(file)
		for _, at := range []int{0, 30, len(file) / 3, len(file) / 2, len(file) - 3} {
			bad := bytes.Clone(file)
			bad[at] ^= 0x10
			d, m := newDisk(t, 4<<20)
			if _, err := Write(t.Context(), &memFile{data: bad}, d, Options{Checksum: good}); err == nil {
				t.Errorf("%s: byte %d of %d flipped, and the write succeeded", name, at, len(file))
			}
			checkUnbootable(t, m)
		}
		for _, n := range []int{1, 20, len(file) / 2, len(file) - 1} {
			d, m := newDisk(t, 4<<20)
			if _, err := Write(t.Context(), &memFile{data: file[:n]}, d, Options{Checksum: good}); err == nil {
				t.Errorf("%s: cut to %d of %d bytes, and the write succeeded", name, n, len(file))
			}
			checkUnbootable(t, m)
		}
	}
}

func TestChecksums(t *testing.T) {
	img := diskImage(1 << 20)
	s512 := sha512.Sum512(img)
	for _, tt := range []struct {
		name string
		sum  Checksum
		want error
		says string
	}{
		{"sha512", Checksum{"sha512", hex.EncodeToString(s512[:])}, nil, ""},
		{"upper case", Checksum{"SHA256", strings.ToUpper(sha(img).Hex)}, nil, ""},
		{"wrong", sha(img[1:]), ErrChecksum, "expected " + sha(img[1:]).Hex},
		{"none", Checksum{}, ErrNoChecksum, "none is given"},
		{"md5", Checksum{"md5", strings.Repeat("0", 32)}, ErrNoChecksum, "md5"},
		{"sha512 value as sha256", Checksum{"sha256", hex.EncodeToString(s512[:])}, ErrNoChecksum, "64 hex digits"},
		{"not hex", Checksum{"sha256", strings.Repeat("x", 64)}, ErrNoChecksum, "64 hex digits"},
	} {
		d, m := newDisk(t, 2<<20)
		src := &memFile{data: img}
		_, err := Write(t.Context(), src, d, Options{Checksum: tt.sum})
		if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %v with %q", tt.name, err, tt.want, tt.says)
		}
		if errors.Is(tt.want, ErrNoChecksum) && src.opened > 0 {
			t.Errorf("%s: the image was fetched", tt.name)
		}
		if err != nil {
			checkUnbootable(t, m)
		}
	}
	if _, err := ParseChecksum("d41d8cd98f00b204e9800998ecf8427e"); !errors.Is(err, ErrNoChecksum) {
		t.Errorf("MD5: %v, want ErrNoChecksum", err)
	}
	if c, err := ParseChecksum(" " + sha(img).Hex + "\n"); err != nil || c != sha(img) {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestTooLargeForTheDisk(t *testing.T) {
	img := diskImage(3 << 20)
	bomb := packGz(make([]byte, 64<<20))
	for _, tt := range []struct {
		name      string
		src       memFile
		untouched bool
	}{
		{"raw", memFile{data: img}, true},
		{"raw, size unknown", memFile{data: img, hide: true}, false},
		{"zst", memFile{data: packZst(img)}, true},
		{"gz", memFile{data: packGz(img)}, false},
		{"xz", memFile{data: packXz(img)}, false},
		{"gz bomb", memFile{data: bomb}, false},
		{"qcow2", memFile{data: qcowFile{data: img}.bytes()}, true},
		{"qcow2.gz", memFile{data: packGz(qcowFile{data: img}.bytes())}, true},
	} {
		d, m := newDisk(t, 2<<20)
		_, err := Write(t.Context(), &tt.src, d, Options{Checksum: sha(tt.src.data)})
		if !errors.Is(err, ErrTooSmall) || !strings.Contains(err.Error(), "2097152") {
			t.Errorf("%s: %v, want ErrTooSmall with the disk's size", tt.name, err)
		}
		if got := content(t, m); tt.untouched && !bytes.HasPrefix(got, []byte("old data!")) {
			t.Errorf("%s: the disk was changed", tt.name)
		}
		checkUnbootable(t, m)
	}
}

func TestImageOfTheDisksSize(t *testing.T) {
	img := diskImage(4 << 20)
	for _, file := range [][]byte{img, packGz(img), qcowFile{data: img}.bytes()} {
		d, m := newDisk(t, 4<<20)
		if _, err := Write(t.Context(), &memFile{data: file}, d, Options{Checksum: sha(file)}); err != nil {
			t.Fatal(err)
		}
		checkDisk(t, m, img)
	}
}

func TestSmallImages(t *testing.T) {
	for _, n := range []int{1, 511, 512, 65536, 65537, 1 << 20, 1<<20 + 1} {
		img := diskImage(2 << 20)[:n]
		d, m := newDisk(t, 4<<20)
		if _, err := Write(t.Context(), &memFile{data: img}, d, Options{Checksum: sha(img)}); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		if !bytes.Equal(content(t, m)[:n], img) {
			t.Errorf("%d bytes: the disk differs", n)
		}
	}
	d, _ := newDisk(t, 1<<20)
	if _, err := Write(t.Context(), &memFile{}, d, Options{Checksum: sha(nil)}); !errors.Is(err, ErrFormat) {
		t.Errorf("empty file: %v, want ErrFormat", err)
	}
}

func TestErrorsOfDiskAndSource(t *testing.T) {
	img := diskImage(8 << 20)
	broken := errors.New("medium error")
	for _, op := range []string{"write", "zero", "sync"} {
		for _, file := range [][]byte{img, packZst(img), qcowFile{data: img}.bytes()} {
			d, m := newDisk(t, 16<<20)
			m.Fault = func(o, _ string, off, n int64) error {
				if o == op && (o == "sync" || off > 2<<20 && off < 9<<20) {
					return broken
				}
				return nil
			}
			_, err := Write(t.Context(), &memFile{data: file}, d, Options{Checksum: sha(file)})
			if !errors.Is(err, broken) {
				t.Errorf("%s: %v, want the disk's error", op, err)
			}
			m.Fault = nil
			checkUnbootable(t, m)
		}
	}
	lost := errors.New("connection lost")
	for name, file := range map[string][]byte{"raw": img, "gz": packGz(img), "xz": packXz(img), "qcow2": qcowFile{data: img}.bytes()} {
		d, m := newDisk(t, 16<<20)
		if _, err := Write(t.Context(), &memFile{data: file, fail: lost}, d, Options{Checksum: sha(file)}); !errors.Is(err, lost) {
			t.Errorf("%s: %v, want the source's error", name, err)
		}
		checkUnbootable(t, m)
	}
}

func TestCancel(t *testing.T) {
	img := diskImage(8 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	d, m := newDisk(t, 16<<20)
	m.Fault = func(op, _ string, off, _ int64) error {
		if op == "write" && off > 3<<20 {
			cancel()
		}
		return nil
	}
	if _, err := Write(ctx, &memFile{data: img}, d, Options{Checksum: sha(img)}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	checkUnbootable(t, m)
}

func TestProgressEndsAtTheWhole(t *testing.T) {
	img := diskImage(4 << 20)
	for _, file := range [][]byte{img, packXz(img), qcowFile{data: img}.bytes()} {
		var last Progress
		d, _ := newDisk(t, 8<<20)
		_, err := Write(t.Context(), &memFile{data: file}, d, Options{Checksum: sha(file), Progress: func(p Progress) { last = p }})
		if err != nil || last.Done != int64(len(img)) || last.What != "write image" {
			t.Errorf("%v, last progress %+v; want %d done", err, last, len(img))
		}
	}
}

// Memory must not grow with the image: 2 GiB, mostly holes, from a packed file.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 2 GiB of zeros")
	}
	const size = 2 << 30
	path := filepath.Join(t.TempDir(), "sda")
	m := &hw.Fake{Hardware: wire.Inventory{Disks: []wire.Disk{{Name: "/dev/sda", Size: size}}}, Files: map[string]string{"/dev/sda": path}}
	d, err := m.OpenDisk("/dev/sda", true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	file := sparseZst(size)
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	peak := uint64(0)
	watch := func(Progress) {
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapInuse)
	}
	res, err := Write(t.Context(), &memFile{data: file}, d, Options{Checksum: sha(file), Progress: watch})
	if err != nil {
		t.Fatal(err)
	}
	if res.Size != size {
		t.Errorf("wrote %d bytes, want %d", res.Size, size)
	}
	if used := int64(peak) - int64(before.HeapInuse); used > 64<<20 {
		t.Errorf("used %d MiB of heap for a 2 GiB image, want less than 64", used>>20)
	}
	t.Logf("peak heap %d MiB over the start, written in %s", (int64(peak)-int64(before.HeapInuse))>>20, res.Took)
}

// sparseZst packs size bytes with a few data blocks among zeros.
func sparseZst(size int64) []byte {
	var b bytes.Buffer
	e, _ := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedFastest))
	zeros, data := make([]byte, 4<<20), diskImage(1<<20)
	for left := size; left > 0; {
		p := zeros
		if (left>>20)%64 == 0 {
			p = data
		}
		p = p[:min(left, int64(len(p)))]
		e.Write(p)
		left -= int64(len(p))
	}
	e.Close()
	return b.Bytes()
}

// Files of qemu-img, an independent writer.
func TestFilesOfQemuImg(t *testing.T) {
	qemu, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip("needs qemu-img")
	}
	dir := t.TempDir()
	img := diskImage(8 << 20)
	raw := filepath.Join(dir, "raw")
	if err := os.WriteFile(raw, img, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"-O qcow2", "-O qcow2 -o compat=0.10", "-O qcow2 -c", "-O qcow2 -c -o compression_type=zstd",
		"-O qcow2 -o cluster_size=4k,lazy_refcounts=on", "-O qcow2 -o preallocation=metadata", "-O qcow2 -c -o cluster_size=2M",
	} {
		out := filepath.Join(dir, "out.qcow2")
		cmd := exec.Command(qemu, append(append([]string{"convert", "-f", "raw"}, strings.Fields(args)...), raw, out)...)
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", cmd, err, b)
		}
		file, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		d, m := newDisk(t, 24<<20)
		if _, err := Write(t.Context(), &memFile{data: file}, d, Options{Checksum: sha(file), Memory: 1 << 20}); err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		checkDisk(t, m, img)
	}
}

func ExampleParseChecksum() {
	c, err := ParseChecksum("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
	fmt.Println(c.Algorithm, err)
	// Output: sha256 <nil>
}
