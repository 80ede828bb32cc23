package image

import (
	"runtime"
	"testing"

	"bessemer/agent/hw"
)

// TestSmallImagesTakeLittleMemory: a simulated rack writes hundreds of small
// images at once, in one process.
func TestSmallImagesTakeLittleMemory(t *testing.T) {
	img := diskImage(1216 << 10)
	for _, tt := range []struct {
		name string
		file []byte
		most uint64 // bytes allocated for one image, all told
	}{
		{"raw", img, 2560 << 10},
		{"zst", packZst(img), 5 << 20},
		{"qcow2", qcowFile{data: img}.bytes(), 6 << 20},
	} {
		d, _ := newDisk(t, 64<<20)
		got := allocated(t, tt.file, d)
		t.Logf("%s: %d KiB", tt.name, got>>10)
		if got > tt.most {
			t.Errorf("%s: writing an image of %d KiB took %d KiB of memory, want at most %d", tt.name, len(img)>>10, got>>10, tt.most>>10)
		}
	}
}

func allocated(t *testing.T, file []byte, d hw.Disk) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if _, err := Write(t.Context(), &memFile{data: file}, d, Options{Checksum: sha(file)}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
