//go:build linux

package hw

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// loopDisk makes a disk out of a file, with the kernel's loop device.
func loopDisk(t *testing.T, size int64) (m *Linux, name, backing string) {
	t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("needs root and loop devices: %v", err)
	}
	defer control.Close()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		t.Skipf("no free loop device: %v", err)
	}
	backing = filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(backing)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	name = fmt.Sprintf("/dev/loop%d", n)
	dev, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Skipf("loop device: %v", err)
	}
	defer dev.Close()
	config := unix.LoopConfig{Fd: uint32(f.Fd())}
	config.Info.Flags = unix.LO_FLAGS_PARTSCAN
	if err := unix.IoctlLoopConfigure(int(dev.Fd()), &config); err != nil {
		t.Skipf("set up %s: %v", name, err)
	}
	t.Cleanup(func() {
		if dev, err := os.Open(name); err == nil {
			_ = unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_CLR_FD, 0)
			dev.Close()
		}
	})
	return NewLinux(LinuxOptions{}), name, backing
}

func TestBlockDisk(t *testing.T) {
	const size = 64 << 20
	m, name, backing := loopDisk(t, size)
	d, err := m.OpenDisk(name, true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Size() != size || d.SectorSize() != 512 {
		t.Errorf("size %d, sectors of %d", d.Size(), d.SectorSize())
	}
	want := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	for off := 0; off < size; off += 1 << 20 {
		if _, err := d.WriteAt(want[off:off+1<<20], int64(off)); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range [][2]int64{{100, 50}, {4096, 8192}, {1 << 20, 300}, {30<<20 + 1, 9<<20 + 7}, {size - 10, 10}, {5, 0}} {
		if err := d.Zero(r[0], r[1]); err != nil {
			t.Fatal(err)
		}
		clear(want[r[0] : r[0]+r[1]])
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(backing)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the file under the disk has not what was written")
	}
	again := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(d, 0, size), again); err != nil || !bytes.Equal(again, want) {
		t.Errorf("read back something else, %v", err)
	}
	if n, err := d.ReadAt(again, size-16); n != 16 || err != io.EOF {
		t.Errorf("read over the end: %d bytes, %v", n, err)
	}
	if err := d.RereadPartitions(); err != nil {
		t.Error(err)
	}
	if err := d.Discard(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

func TestBlockDiskBounds(t *testing.T) {
	m, name, _ := loopDisk(t, 1<<20)
	d, err := m.OpenDisk(name, true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.WriteAt(make([]byte, 2), 1<<20-1); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("wrote beyond the end: %v", err)
	}
	for _, r := range [][2]int64{{-1, 1}, {1, 1 << 20}, {1 << 62, 1 << 62}, {0, -1}} {
		if err := d.Zero(r[0], r[1]); err == nil {
			t.Errorf("zeroed %v", r)
		}
	}
	reader, err := m.OpenDisk(name, false)
	if err != nil {
		t.Fatalf("reading beside the writer: %v", err)
	}
	reader.Close()
}
