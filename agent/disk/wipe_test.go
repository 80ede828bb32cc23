package disk

import (
	"bytes"
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"bessemer/agent/hw"
)

func TestWipeMetadata(t *testing.T) {
	const size = 200 << 20
	d, m := newDisk(t, size, 512)
	root := rootPart
	root.First, root.Last = 20480, 20480+2048*150-1 // 10 MiB to 160 MiB
	write(t, d, gptImage(180<<20, 512, espPart, root))
	if _, err := Settle(d); err != nil {
		t.Fatal(err)
	}
	mark := []byte("SIGNATURE")
	places := map[string]int64{
		"ext4 in the root partition": 10<<20 + 1024, "md 1.0 at its end": 160<<20 - 8192, "LVM": 10<<20 + 512,
		"btrfs copy in it": 74<<20 + 64, "btrfs copy of the disk": 64<<20 + 64, "ZFS label": 256 << 10, "ZFS label at the end": size - 256<<10,
		"md 0.90 at the end": size - 64<<10, "ESP": 1<<20 + 82, "backup GPT": size - 512,
	}
	for _, off := range places {
		d.WriteAt(mark, off)
	}
	d.WriteAt(mark, 40<<20) // data, which a metadata wipe leaves
	if err := WipeMetadata(d); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(m.Files["/dev/sda"])
	for name, off := range places {
		if bytes.Equal(got[off:off+int64(len(mark))], mark) {
			t.Errorf("%s at %d survived", name, off)
		}
	}
	if !bytes.Equal(got[40<<20:40<<20+len(mark)], mark) {
		t.Error("data was wiped too")
	}
	if tab, err := ReadTable(d); err != nil || tab.Scheme != None {
		t.Errorf("table after wiping: %+v, %v", tab, err)
	}
}

func TestWipeSmallAndDamaged(t *testing.T) {
	for _, size := range []int64{512, 64 << 10, 3 << 20} {
		d, m := newDisk(t, size, 512)
		d.WriteAt(bytes.Repeat([]byte{7}, int(size)), 0)
		if err := WipeMetadata(d); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		if got, _ := os.ReadFile(m.Files["/dev/sda"]); !allZero(got) {
			t.Errorf("%d bytes: not all zero", size)
		}
	}
	d, _ := newDisk(t, 8<<20, 512)
	img := gptImage(6<<20, 512, espPart)
	img[512+60] ^= 1
	write(t, d, img)
	if err := WipeMetadata(d); err != nil {
		t.Errorf("damaged table: %v", err)
	}
}

func TestWipeRefusesClusterFileSystems(t *testing.T) {
	gpfs := rootPart
	gpfs.Type = typeGPFS
	for name, prepare := range map[string]func(hw.Disk){
		"VMFS":              func(d hw.Disk) { d.WriteAt([]byte("\x0d\xd0\x01\xc0"), 1<<20) },
		"GFS2 in partition": func(d hw.Disk) { d.WriteAt([]byte("\x01\x16\x19\x70"), 4096*512+64<<10) },
		"GPFS":              func(d hw.Disk) { d.WriteAt(gptImage(6<<20, 512, gpfs), 0) },
	} {
		d, m := newDisk(t, 6<<20, 512)
		write(t, d, gptImage(6<<20, 512, espPart, rootPart))
		prepare(d)
		before, _ := os.ReadFile(m.Files["/dev/sda"])
		if err := WipeMetadata(d); !errors.Is(err, ErrShared) {
			t.Errorf("%s: %v, want ErrShared", name, err)
		}
		if err := Erase(t.Context(), d, func(int64) {}); !errors.Is(err, ErrShared) {
			t.Errorf("%s: %v, want ErrShared", name, err)
		}
		if after, _ := os.ReadFile(m.Files["/dev/sda"]); !bytes.Equal(before, after) {
			t.Errorf("%s: the disk was changed", name)
		}
	}
}

// liar takes writes and does not keep them.
type liar struct{ hw.Disk }

func (liar) Zero(int64, int64) error { return nil }

func TestWipeReadsBack(t *testing.T) {
	d, _ := newDisk(t, 8<<20, 512)
	write(t, d, gptImage(6<<20, 512, espPart))
	if err := WipeMetadata(liar{d}); err == nil {
		t.Error("a disk that keeps nothing was called wiped")
	}
	d.WriteAt([]byte{1}, 3<<20)
	if err := Erase(t.Context(), noDiscard{liar{d}, errors.ErrUnsupported}, func(int64) {}); err == nil {
		t.Error("a disk that keeps nothing was called erased")
	}
}

// noDiscard cannot discard, or says that it can and fails.
type noDiscard struct {
	hw.Disk
	err error
}

func (d noDiscard) Discard() error { return d.err }

func TestErase(t *testing.T) {
	d, m := newDisk(t, 8<<20, 512)
	for _, discard := range []error{errors.ErrUnsupported, syscall.EIO} {
		d.WriteAt(bytes.Repeat([]byte{7}, 8<<20), 0)
		var last int64
		if err := Erase(t.Context(), noDiscard{d, discard}, func(n int64) { last = n }); err != nil || last != 8<<20 {
			t.Fatalf("discard %v: %v, %d bytes done", discard, err, last)
		}
		if got, _ := os.ReadFile(m.Files["/dev/sda"]); !allZero(got) {
			t.Errorf("discard %v: not all zero", discard)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Erase(ctx, d, func(int64) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
