package hw

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"bessemer/agent/wire"
)

func newFake(t *testing.T) *Fake {
	return &Fake{
		Hardware: wire.Inventory{Disks: []wire.Disk{{Name: "/dev/sda", Size: 1 << 20}, {Name: "/dev/sr0", Size: 4096, ReadOnly: true}}},
		Files:    map[string]string{"/dev/sda": filepath.Join(t.TempDir(), "sda"), "/dev/sr0": filepath.Join(t.TempDir(), "sr0")},
	}
}

func TestFakeDiskBehavesLikeABlockDevice(t *testing.T) {
	f := newFake(t)
	d, err := f.OpenDisk("/dev/sda", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.OpenDisk("/dev/sda", true); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("second opening for writing: %v, want EBUSY", err)
	}
	if _, err := f.OpenDisk("/dev/sr0", true); !errors.Is(err, syscall.EROFS) {
		t.Errorf("opening a read-only disk for writing: %v, want EROFS", err)
	}
	if _, err := f.OpenDisk("/dev/sdz", false); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("opening a disk that is not there: %v, want ENXIO", err)
	}
	if n, err := d.WriteAt([]byte("abcd"), d.Size()-2); n != 2 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write over the end: %d, %v; want 2, ENOSPC", n, err)
	}
	if err := d.Zero(d.Size()-1, 1); err != nil {
		t.Error(err)
	}
	p := make([]byte, 4)
	if n, err := d.ReadAt(p, d.Size()-2); n != 2 || err != io.EOF || string(p[:2]) != "a\x00" {
		t.Errorf("read back %d %q, %v; want 2 \"a\\x00\", EOF", n, p[:2], err)
	}
	if err := d.Zero(0, d.Size()+1); err == nil {
		t.Error("zeroing more than the disk has succeeded")
	}
	d.Close()
	if d, err = f.OpenDisk("/dev/sda", true); err != nil {
		t.Errorf("opening after closing: %v", err)
	}
	d.Close()
}

func TestFakeDiskThatWritesOut(t *testing.T) {
	f := newFake(t)
	f.Hardware.Disks[0].Size, f.WriteOut = 4*cacheStep, true
	d, err := f.OpenDisk("/dev/sda", true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	want := bytes.Repeat([]byte("0123456789abcde\n"), cacheStep/16)
	for off := int64(0); off < d.Size(); off += cacheStep {
		if n, err := d.WriteAt(want, off); n != len(want) || err != nil {
			t.Fatalf("write at %d: %d, %v", off, n, err)
		}
	}
	got := make([]byte, cacheStep)
	for off := int64(0); off < d.Size(); off += cacheStep {
		if _, err := d.ReadAt(got, off); err != nil || !bytes.Equal(got, want) {
			t.Errorf("read at %d: %v, or other bytes than were written", off, err)
		}
	}
}

func TestFakeFaults(t *testing.T) {
	f := newFake(t)
	broken := errors.New("medium error")
	f.Fault = func(op, disk string, off, n int64) error {
		if op == "write" && off <= 4096 && off+n > 4096 {
			return broken
		}
		return nil
	}
	d, err := f.OpenDisk("/dev/sda", true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.WriteAt(make([]byte, 512), 0); err != nil {
		t.Error(err)
	}
	if _, err := d.WriteAt(make([]byte, 512), 4096); !errors.Is(err, broken) {
		t.Errorf("got %v, want the fault", err)
	}
}

func TestFakeEFIKeepsNoDuplicates(t *testing.T) {
	var e FakeEFI
	a, _ := e.SetEntry("debian", `\EFI\debian\shimx64.efi`, Partition{UUID: "1"})
	b, _ := e.SetEntry("other", `\EFI\other.efi`, Partition{UUID: "2"})
	c, err := e.SetEntry("debian", `\EFI\debian\grubx64.efi`, Partition{UUID: "3"})
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := e.Entries()
	if len(entries) != 2 || !slices.Equal(e.Order(), []int{c, b}) || a != c {
		t.Errorf("entries %v, order %v; want two, the new one first", entries, e.Order())
	}
	if err := e.Delete(b); err != nil || len(e.Order()) != 1 {
		t.Errorf("delete: %v, order %v", err, e.Order())
	}
	if err := e.Delete(b); err == nil {
		t.Error("deleting an entry twice succeeded")
	}
}

// TestFakeIsBusy: an opening for writing waits until nobody else holds the
// disk, and gives up in the end (K-14).
func TestFakeIsBusy(t *testing.T) {
	f := newFake(t)
	f.BusyPause = 1
	asked, free := 0, 4
	f.Busy = func(string) bool { asked++; return asked < free }
	d, err := f.OpenDisk("/dev/sda", true)
	if err != nil || asked != free {
		t.Fatalf("asked %d times, %v", asked, err)
	}
	asked = 0
	if err := d.RereadPartitions(); err != nil || asked != free {
		t.Errorf("reread: asked %d times, %v", asked, err)
	}
	d.Close()
	free = 1000
	if _, err := f.OpenDisk("/dev/sda", true); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("got %v, want EBUSY", err)
	}
	asked = 0
	if d, err = f.OpenDisk("/dev/sda", false); err != nil || asked != 0 {
		t.Fatalf("opening for reading: asked %d times, %v", asked, err)
	}
	d.Close()
}

// TestFakeTearsWrites: of a write that fails in the middle, the first part is
// on the disk.
func TestFakeTearsWrites(t *testing.T) {
	f := newFake(t)
	f.Fault = func(op, _ string, off, n int64) error {
		if op == "write" && off <= 100 && off+n > 100 {
			return &Torn{Kept: 100 - off, Err: syscall.EIO}
		}
		return nil
	}
	var done int64
	f.Done = func(op, _ string, _, n int64) { done += n }
	d, err := f.OpenDisk("/dev/sda", true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n, err := d.WriteAt(bytes.Repeat([]byte{1}, 512), 0)
	got := make([]byte, 512)
	if _, rerr := d.ReadAt(got, 0); n != 100 || !errors.Is(err, syscall.EIO) || rerr != nil || bytes.Count(got, []byte{1}) != 100 || done != 100 {
		t.Errorf("%d written, %v; %d on the disk, %d reported, %v", n, err, bytes.Count(got, []byte{1}), done, rerr)
	}
}

// TestFakeAlters: what is reported may change while the machine runs, and an
// alteration leaves the hardware as it is.
func TestFakeAlters(t *testing.T) {
	f := newFake(t)
	f.Alter = func(inv *wire.Inventory) { inv.Disks[0].LogicalSectorSize = 4096; inv.Disks = inv.Disks[:1] }
	disks, err := f.Disks(t.Context())
	if err != nil || len(disks) != 1 || f.Hardware.Disks[0].LogicalSectorSize != 0 || len(f.Hardware.Disks) != 2 {
		t.Errorf("%+v, %v; the hardware is %+v", disks, err, f.Hardware.Disks)
	}
	d, err := f.OpenDisk("/dev/sda", false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.SectorSize() != 4096 {
		t.Errorf("sectors of %d bytes", d.SectorSize())
	}
}
