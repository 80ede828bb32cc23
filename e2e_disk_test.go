//go:build linux

package main_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bessemer/bmc/sim"
)

// checkDisk compares the machine's disk with the image, byte by byte, and
// looks for the config drive. Other disks must still be untouched.
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
	checkPartitions(t, n.name, img, disk)
	for _, d := range disks[1:] {
		if !untouched(t, d.Path) {
			t.Errorf("%s: disk %s was written to, and is not the one to be deployed", n.name, d.Serial)
		}
	}
}

// checkPartitions expects every partition of the image on the disk, unchanged,
// and one more that holds the config drive.
func checkPartitions(t *testing.T, name string, img, disk io.ReaderAt) {
	t.Helper()
	want, got := partitions(t, img), partitions(t, disk)
	for i, entry := range want {
		if !bytes.Equal(entry, empty) && !bytes.Equal(entry, got[i]) {
			t.Errorf("%s: partition %d of the image is not on the disk as it was", name, i+1)
		}
	}
	for i, entry := range got {
		if !bytes.Equal(entry, empty) && bytes.Equal(want[i], empty) && isConfigDrive(t, disk, entry) {
			return
		}
	}
	t.Errorf("%s: no partition of the disk holds a config drive", name)
}

const entrySize = 128

var empty = make([]byte, entrySize)

// partitions returns the entries of a disk's primary GPT.
func partitions(t *testing.T, r io.ReaderAt) (entries [][]byte) {
	t.Helper()
	b := make([]byte, 128*entrySize)
	if _, err := r.ReadAt(b, 1024); err != nil {
		t.Fatal(err)
	}
	for e := range slices.Chunk(b, entrySize) {
		entries = append(entries, e)
	}
	return entries
}

// isConfigDrive reports whether a partition has the volume label of a config
// drive, in ISO 9660 or FAT.
func isConfigDrive(t *testing.T, disk io.ReaderAt, entry []byte) bool {
	t.Helper()
	b := make([]byte, 40<<10)
	if _, err := disk.ReadAt(b, int64(binary.LittleEndian.Uint64(entry[32:]))*512); err != nil {
		t.Fatal(err)
	}
	for _, label := range [][]byte{b[32808:32840], b[43:54], b[71:82]} {
		if strings.EqualFold(string(bytes.TrimRight(label, " \x00")), "config-2") {
			return true
		}
	}
	return false
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

// stainSize is how much of a disk stain changes in each place.
const stainSize = 1 << 20

// stain empties the disks of a machine that is off but for something at the
// beginning, in the middle and at the end.
func (n *node) stain(t *testing.T) {
	t.Helper()
	for _, d := range n.machine.Spec().Disks {
		f, err := os.OpenFile(d.Path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(f.Truncate(0), f.Truncate(d.Size))
		for _, at := range stainsOf(d) {
			if err == nil {
				_, err = f.WriteAt(stainAt(d, at), at)
			}
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func stainsOf(d sim.Disk) []int64 { return []int64{0, d.Size / 2, d.Size - stainSize} }

func stainAt(d sim.Disk, at int64) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%-31s\n", fmt.Sprintf("%s at %d", d.Serial, at))), stainSize/32)
}

// checkUntouched expects the stains as they were, and nothing else, on all
// disks.
func (n *node) checkUntouched(t *testing.T) {
	t.Helper()
	for _, d := range n.machine.Spec().Disks {
		checkStains(t, d, stainsOf(d))
	}
}

// checkHalfWritten expects a disk that does not boot and has no partition
// table any more at either end, and other disks untouched.
func (n *node) checkHalfWritten(t *testing.T) {
	t.Helper()
	disks := n.machine.Spec().Disks
	f := openFile(t, disks[0].Path)
	const table = 34 * 512
	for _, at := range []int64{0, disks[0].Size - table} {
		b := make([]byte, table)
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		if bytes.Count(b, []byte{0}) != table {
			t.Errorf("disk %s has something at byte %d that may be taken for a partition table", disks[0].Serial, at)
		}
	}
	for _, d := range disks[1:] {
		checkStains(t, d, stainsOf(d))
	}
}

// checkStains expects a disk that holds its stains and zeros.
func checkStains(t *testing.T, d sim.Disk, at []int64) {
	t.Helper()
	f := openFile(t, d.Path)
	want := map[int64][]byte{}
	for _, off := range at {
		want[off] = stainAt(d, off)
	}
	got := make([]byte, stainSize)
	for off := nextData(t, f, 0); off >= 0 && off < d.Size; off = nextData(t, f, off+stainSize) {
		off -= off % stainSize // the stains begin at whole MiB
		if _, err := f.ReadAt(got[:min(stainSize, d.Size-off)], off); err != nil {
			t.Fatal(err)
		}
		expect := want[off]
		if expect == nil {
			expect = make([]byte, stainSize)
		}
		if !bytes.Equal(got, expect) {
			t.Errorf("disk %s was changed in the MiB at byte %d", d.Serial, off)
			return
		}
		delete(want, off)
	}
	for off := range want {
		t.Errorf("disk %s has lost what was at byte %d", d.Serial, off)
	}
}

// untouched reports whether nothing but zeros is in a file, reading only what it
// has allocated.
func untouched(t *testing.T, path string) bool {
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
