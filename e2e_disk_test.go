//go:build linux

package main_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkDisk compares the machine's disk with the image, byte by byte, and
// looks for the config drive. Other disks must still be empty.
//
// Only the partition table may differ, as it must: its primary copy (sectors 1
// to 33) has one partition more and names the disk's end, its backup has left
// the image's end (33 sectors) for the disk's. The image's partitions must
// still be in it.
func (n *node) checkDisk(t *testing.T) {
	t.Helper()
	disks := n.machine.Spec().Disks
	img, disk := openFile(t, filepath.Join(*imageDir, "tiny.raw")), openFile(t, disks[0].Path)
	fi, err := img.Stat()
	if err != nil {
		t.Fatal(err)
	}
	const sector = 512
	size := fi.Size()
	compare(t, n.name, img, disk, 0, 440) // boot code; the rest of the MBR tells the disk's size
	compare(t, n.name, img, disk, 34*sector, size-33*sector)
	checkPartitions(t, img, disk)

	if !hasConfigDrive(t, disk, size) {
		t.Errorf("%s: no config drive behind the image", n.name)
	}
	for _, d := range disks[1:] {
		if !empty(t, d.Path) {
			t.Errorf("%s: disk %s was written to, and is not the one to be deployed", n.name, d.Serial)
		}
	}
}

// checkPartitions expects every partition of the image on the disk, unchanged.
// An entry has 128 bytes; its name may be compared with the rest.
func checkPartitions(t *testing.T, img, disk io.ReaderAt) {
	t.Helper()
	table := func(r io.ReaderAt) []byte {
		b := make([]byte, 128*128)
		if _, err := r.ReadAt(b, 1024); err != nil {
			t.Fatal(err)
		}
		return b
	}
	want, got := table(img), table(disk)
	for i := 0; i < len(want); i += 128 {
		entry := want[i : i+128]
		if !bytes.Equal(entry, make([]byte, 128)) && !bytes.Equal(entry, got[i:i+128]) {
			t.Errorf("partition %d of the image is not on the disk as it was", i/128+1)
		}
	}
}

// compare reports the first difference between from and to.
func compare(t *testing.T, name string, a, b io.ReaderAt, from, to int64) {
	t.Helper()
	bufA, bufB := make([]byte, 1<<20), make([]byte, 1<<20)
	for at := from; at < to; at += 1 << 20 {
		n := min(1<<20, to-at)
		if _, err := a.ReadAt(bufA[:n], at); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ReadAt(bufB[:n], at); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(bufA[:n], bufB[:n]) {
			continue
		}
		for i := range n {
			if bufA[i] != bufB[i] {
				t.Errorf("%s: byte %d of the disk is %#x, the image has %#x", name, at+i, bufB[i], bufA[i])
				return
			}
		}
	}
}

// hasConfigDrive reports whether the volume label of a config drive, of ISO
// 9660 or FAT, is at a multiple of a MiB behind the offset.
func hasConfigDrive(t *testing.T, r io.ReaderAt, from int64) bool {
	t.Helper()
	for at := from / (1 << 20) * (1 << 20); ; at += 1 << 20 {
		b := make([]byte, 40<<10)
		_, err := r.ReadAt(b, at)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		for _, label := range [][]byte{b[32808:32840], b[43:54], b[71:82]} {
			if strings.EqualFold(string(bytes.TrimRight(label, " \x00")), "config-2") {
				return true
			}
		}
		if errors.Is(err, io.EOF) {
			return false
		}
	}
}

// empty reports whether nothing but zeros is in a file, reading only what it
// has allocated.
func empty(t *testing.T, path string) bool {
	t.Helper()
	f := openFile(t, path)
	buf := make([]byte, 1<<20)
	for at := int64(0); ; {
		at = nextData(t, f, at)
		if at < 0 {
			return true
		}
		n, err := f.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if bytes.Count(buf[:n], []byte{0}) != n {
			return false
		}
		if n == 0 {
			return true
		}
		at += int64(n)
	}
}

// nextData is where a sparse file has data next, -1 for nowhere.
func nextData(t *testing.T, f *os.File, from int64) int64 {
	t.Helper()
	const seekData = 3 // SEEK_DATA of lseek(2)
	at, err := f.Seek(from, seekData)
	if err != nil {
		return -1 // ENXIO: only a hole follows
	}
	return at
}

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
