package disk

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem"
	"github.com/diskfs/go-diskfs/filesystem/fat12"
	"github.com/diskfs/go-diskfs/filesystem/fat16"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
)

// putFiles puts files with their directories into a file system.
func putFiles(t testing.TB, fs filesystem.FileSystem, files map[string][]byte) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if dir := filepath.Dir(name); dir != "." {
			if err := fs.Mkdir(dir); err != nil {
				t.Fatal(err)
			}
		}
		w, err := fs.OpenFile(name, os.O_CREATE|os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(files[name]); err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
}

// makeFAT makes a file system with an independent writer.
func makeFAT(t testing.TB, bits int, size int64, files map[string][]byte) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fat")
	b, err := file.CreateFromPath(path, size)
	if err != nil {
		t.Fatal(err)
	}
	var fs filesystem.FileSystem
	switch bits {
	case 12:
		fs, err = fat12.Create(b, size, 0, 512, "ESP", true)
	case 16:
		fs, err = fat16.Create(b, size, 0, 512, "ESP", true)
	default:
		fs, err = fat32.Create(b, size, 0, 512, "ESP", true)
	}
	if err != nil {
		t.Fatal(err)
	}
	putFiles(t, fs, files)
	b.Close()
	out, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var espFiles = map[string][]byte{
	"/EFI/BOOT/BOOTX64.EFI":                         bytes.Repeat([]byte("loader "), 3000),
	"/EFI/debian/shimx64.efi":                       []byte("shim"),
	"/EFI/debian/BOOTX64.CSV":                       []byte("csv"),
	"/EFI/debian/a rather long name, with üñï.conf": []byte("long"),
	"/EFI/debian/empty":                             {},
}

func openMade(t testing.TB, fs []byte) *FAT {
	t.Helper()
	d, _ := newDisk(t, int64(len(fs))+2<<20, 512)
	d.WriteAt(fs, 1<<20)
	f, err := OpenFAT(d, Partition{Number: 1, First: 2048, Last: 2048 + uint64(len(fs))/512 - 1})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFAT(t *testing.T) {
	for bits, size := range map[int]int64{12: 4 << 20, 16: 16 << 20, 32: 40 << 20} {
		f := openMade(t, makeFAT(t, bits, size, espFiles))
		if f.bits != bits {
			t.Errorf("FAT%d was taken for FAT%d", bits, f.bits)
		}
		for name, want := range espFiles {
			got, err := f.ReadFile(strings.ToLower(name))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("FAT%d %s: %d bytes, %v; want %d", bits, name, len(got), err, len(want))
			}
			if p, ok := f.Find(strings.ToUpper(name)); !ok || !strings.EqualFold(p, name) {
				t.Errorf("FAT%d: found %q, want %q", bits, p, name)
			}
		}
		if n := f.Names("/EFI"); len(n) != 2 {
			t.Errorf("FAT%d: /EFI has %q, want two folders", bits, n)
		}
		if n := f.Names("/nothing"); n != nil {
			t.Errorf("FAT%d: a folder that is not there has %q", bits, n)
		}
		for _, p := range []string{"/EFI/none.efi", "/EFI", "/EFI/debian/empty/x", ""} {
			if _, ok := f.Find(p); ok {
				t.Errorf("FAT%d: %q was found", bits, p)
			}
		}
	}
}

// A chain of clusters that is a loop must end.
func TestFATLoop(t *testing.T) {
	fs := makeFAT(t, 16, 16<<20, espFiles)
	bps := int(binary.LittleEndian.Uint16(fs[11:]))
	fat := int(binary.LittleEndian.Uint16(fs[14:])) * bps
	for c := 2; c < 40; c++ {
		binary.LittleEndian.PutUint16(fs[fat+2*c:], uint16(c))
	}
	f := openMade(t, fs)
	f.Names("/EFI")
	f.ReadFile("/EFI/BOOT/BOOTX64.EFI")
	if b, err := f.chain(3, maxFATDir); err != nil || len(b) > maxFATDir {
		t.Errorf("a loop gave %d bytes, %v", len(b), err)
	}
}

func TestNoFAT(t *testing.T) {
	d, _ := newDisk(t, 4<<20, 512)
	for _, p := range []Partition{{First: 0, Last: 100}, {First: 2048, Last: 1 << 40}, {First: 1 << 60, Last: 1<<60 + 5}} {
		if _, err := OpenFAT(d, p); err == nil {
			t.Errorf("%+v: opened", p)
		}
	}
}

func FuzzFAT(f *testing.F) {
	fs := makeFAT(f, 12, 1<<20, map[string][]byte{"/EFI/BOOT/BOOTX64.EFI": []byte("x")})
	f.Add(fs[:8192], uint16(40), byte(9))
	f.Fuzz(func(t *testing.T, head []byte, at uint16, v byte) {
		b := bytes.Clone(fs)
		copy(b, head)
		b[int(at)%len(b)] = v
		fat, err := OpenFAT(memDisk{b}, Partition{First: 0, Last: 2047})
		if err != nil {
			return
		}
		fat.Names("/")
		fat.Names("/EFI")
		fat.ReadFile("/EFI/BOOT/BOOTX64.EFI")
	})
}
