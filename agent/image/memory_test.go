package image

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"bessemer/agent/hw"
	"bessemer/agent/wire"
)

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
