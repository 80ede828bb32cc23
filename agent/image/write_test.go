package image

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"bessemer/agent/hw"
)

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

func ExampleParseChecksum() {
	c, err := ParseChecksum("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
	fmt.Println(c.Algorithm, err)
	// Output: sha256 <nil>
}
