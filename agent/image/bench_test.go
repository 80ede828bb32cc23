package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"bessemer/agent/hw"
	"bessemer/agent/wire"
)

// benchSize is the size of the disk image that is written.
const benchSize = 512 << 20

// diskFile is an image file on disk, as a source.
type diskFile struct {
	path string
	*os.File
}

func (d diskFile) Open(context.Context) (File, error) {
	f, err := os.Open(d.path)
	return diskFile{d.path, f}, err
}

func (d diskFile) Size() int64 {
	st, err := d.Stat()
	if err != nil {
		return -1
	}
	return st.Size()
}

func (d diskFile) Ranges(context.Context) io.ReaderAt { return d.File }

// BenchmarkWrite measures writing an image to a file, verified, beside the
// tools that people use, which verify nothing. Rates are of the disk image.
//
//	go test -bench Write -benchtime 3x ./agent/image
func BenchmarkWrite(b *testing.B) {
	dir := b.TempDir()
	raw, zst := filepath.Join(dir, "raw"), filepath.Join(dir, "zst")
	makeBenchImage(b, raw, zst)
	bench := func(name, file string) {
		b.Run(name, func(b *testing.B) { benchOurs(b, file, benchSize) })
	}
	bench("raw/bessemer", raw)
	b.Run("raw/dd", func(b *testing.B) { benchTool(b, dir, "dd", "if="+raw, "of=OUT", "bs=4M", "conv=fsync", "status=none") })
	bench("zst/bessemer", zst)
	b.Run("zst/zstd", func(b *testing.B) { benchTool(b, dir, "zstd", "-q", "-d", "-f", "-o", "OUT", zst) })
	for kind, args := range map[string][]string{"qcow2": nil, "qcow2-zlib": {"-c"}, "qcow2-zstd": {"-c", "-o", "compression_type=zstd"}} {
		file := filepath.Join(dir, kind)
		qemu, err := exec.LookPath("qemu-img")
		if err != nil {
			b.Skip("needs qemu-img")
		}
		args = append(append([]string{"convert", "-f", "raw", "-O", "qcow2"}, args...), raw, file)
		if out, err := exec.Command(qemu, args...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		bench(kind+"/bessemer", file)
		b.Run(kind+"/bessemer-in-16MiB", func(b *testing.B) { benchOurs(b, file, 16<<20) })
		b.Run(kind+"/qemu-img", func(b *testing.B) { benchTool(b, dir, qemu, "convert", "-O", "raw", file, "OUT") })
	}
}

func makeBenchImage(b *testing.B, raw, packed string) {
	f, err := os.Create(raw)
	if err != nil {
		b.Fatal(err)
	}
	p, err := os.Create(packed)
	if err != nil {
		b.Fatal(err)
	}
	e, _ := zstd.NewWriter(p)
	r := rand.NewChaCha8([32]byte{4})
	piece := make([]byte, 4<<20)
	for i := range benchSize / len(piece) {
		switch { // a quarter is holes, a quarter is random, the rest packs well
		case i%4 == 0:
			clear(piece)
		case i%4 == 1:
			r.Read(piece)
		default:
			for j := 0; j < len(piece); j += 64 {
				r.Read(piece[j : j+16])
				copy(piece[j+16:j+64], "the same text again and again, as in most files")
			}
		}
		for _, w := range []io.Writer{f, e} {
			if _, err := w.Write(piece); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, c := range []io.Closer{f, e, p} {
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// benchOurs writes a file; memory is what may hold a qcow2 file. A machine with
// 4 GiB gives 512 MiB.
func benchOurs(b *testing.B, file string, memory int64) {
	out := filepath.Join(b.TempDir(), "disk")
	m := &hw.Fake{Hardware: wire.Inventory{Disks: []wire.Disk{{Name: "d", Size: 2 * benchSize}}}, Files: map[string]string{"d": out}}
	sum := fileSum(b, file)
	b.SetBytes(benchSize)
	for b.Loop() {
		b.StopTimer()
		os.Remove(out)
		d, err := m.OpenDisk("d", true)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := Write(b.Context(), diskFile{path: file}, d, Options{Checksum: sum, Memory: memory}); err != nil {
			b.Fatal(err)
		}
		d.Close()
	}
}

func fileSum(b *testing.B, file string) Checksum {
	f, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		b.Fatal(err)
	}
	return Checksum{"sha256", hex.EncodeToString(h.Sum(nil))}
}

// benchTool runs a program that writes to the file OUT, then flushes that.
func benchTool(b *testing.B, dir, tool string, args ...string) {
	path, err := exec.LookPath(tool)
	if err != nil {
		b.Skip("needs " + tool)
	}
	out := filepath.Join(dir, "out")
	for i, a := range args {
		if a == "OUT" {
			args[i] = out
		} else if a == "of=OUT" {
			args[i] = "of=" + out
		}
	}
	b.SetBytes(benchSize)
	for b.Loop() {
		b.StopTimer()
		os.Remove(out)
		b.StartTimer()
		if o, err := exec.Command(path, args...).CombinedOutput(); err != nil {
			b.Fatalf("%s: %v: %s", tool, err, o)
		}
		f, err := os.OpenFile(out, os.O_WRONLY, 0)
		if err != nil {
			b.Fatal(err)
		}
		f.Sync()
		f.Close()
	}
}
