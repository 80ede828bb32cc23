package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"bessemer/agent/hw"
)

const (
	edge     = 4 << 20 // zeroed at each end of a disk
	partEdge = 1 << 20 // zeroed at each end of a partition
	super    = 64 << 10
)

// superblocks are where file systems keep copies away from the ends: btrfs at
// 64 MiB and 256 GiB; its first copy is within the edge.
var superblocks = []int64{64 << 20, 256 << 30}

// ErrShared is wrapped when a disk carries a file system that other machines
// may be using at this moment (K-09).
var ErrShared = errors.New("the disk holds a cluster file system that others may be using")

// WipeMetadata removes everything by which an operating system or a firmware
// would find something on a disk: partition tables, boot code, superblocks of
// file systems, md, LVM, ZFS and the like, also those inside the partitions,
// which the next tenant might uncover by making the same partitions. It reads
// back what it did. The data itself stays.
func WipeMetadata(d hw.Disk) error {
	t, terr := ReadTable(d) // a damaged table is wiped too
	if err := refuseShared(d, t); err != nil {
		return err
	}
	ranges := wipeRanges(d.Size(), t)
	for _, r := range ranges {
		if err := d.Zero(r.off, r.n); err != nil {
			return fmt.Errorf("zero %d bytes at %d: %w", r.n, r.off, err)
		}
	}
	if err := d.Sync(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	for _, r := range ranges {
		if err := verifyZero(d, r.off, r.n); err != nil {
			return err
		}
	}
	if err := d.RereadPartitions(); err != nil && (t.Scheme != None || terr != nil) {
		return fmt.Errorf("read partition table anew: %w", err)
	}
	return nil
}

type span struct{ off, n int64 }

// wipeRanges lists what to zero, clipped to the disk.
func wipeRanges(size int64, t Table) []span {
	var out []span
	add := func(off, n int64) {
		off = max(off, 0)
		if n = min(n, size-off); n > 0 {
			out = append(out, span{off, n})
		}
	}
	for _, p := range t.Partitions { // before the table that leads to them
		off, n := p.Offset(t.SectorSize), p.Size(t.SectorSize)
		add(off, min(n, partEdge))
		add(off+max(0, n-partEdge), min(n, partEdge))
		for _, s := range superblocks {
			if s+super <= n {
				add(off+s, super)
			}
		}
	}
	for _, s := range superblocks {
		add(s, super)
	}
	add(size-edge, edge)
	add(0, edge)
	return out
}

func verifyZero(d hw.Disk, off, n int64) error {
	b := make([]byte, min(n, 1<<20))
	for end := off + n; off < end; off += int64(len(b)) {
		b = b[:min(int64(len(b)), end-off)]
		if _, err := d.ReadAt(b, off); err != nil {
			return fmt.Errorf("read back %d bytes at %d: %w", len(b), off, err)
		}
		if !allZero(b) {
			return fmt.Errorf("read back %d bytes at %d: they are not zero; the disk takes writes but does not keep them", len(b), off)
		}
	}
	return nil
}

// refuseShared looks for VMFS, GFS2 and GPFS on the disk and its partitions.
func refuseShared(d hw.Disk, t Table) error {
	starts := []int64{0}
	for _, p := range t.Partitions {
		if p.Type == typeGPFS {
			return fmt.Errorf("%w: GPFS on partition %d", ErrShared, p.Number)
		}
		starts = append(starts, p.Offset(t.SectorSize))
	}
	for _, at := range starts {
		for _, m := range []struct {
			off   int64
			magic string
			name  string
		}{
			{1 << 20, "\x0d\xd0\x01\xc0", "VMFS"},
			{64 << 10, "\x01\x16\x19\x70", "GFS2"},
		} {
			b := make([]byte, 4)
			if at+m.off+4 > d.Size() {
				continue
			}
			if _, err := d.ReadAt(b, at+m.off); err != nil {
				return fmt.Errorf("look for cluster file systems: %w", err)
			}
			if bytes.Equal(b, []byte(m.magic)) {
				return fmt.Errorf("%w: %s at byte %d", ErrShared, m.name, at)
			}
		}
	}
	return nil
}

// eraseStep is how much is zeroed between two looks at the context.
const eraseStep = 256 << 20

// Erase makes a whole disk read as zeros and reads samples back. done is called
// with the bytes dealt with so far.
func Erase(ctx context.Context, d hw.Disk, done func(int64)) error {
	t, _ := ReadTable(d) // a damaged table hides nothing that we look for
	if err := refuseShared(d, t); err != nil {
		return err
	}
	// Discarding first makes the zeroing fast where it helps. Where the disk
	// cannot, or answers with an error as some behind controllers do (EIO,
	// EREMOTEIO), nothing is lost: the zeroing decides.
	_ = d.Discard()
	size := d.Size()
	for off := int64(0); off < size; off += eraseStep {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(eraseStep, size-off)
		if err := d.Zero(off, n); err != nil {
			return fmt.Errorf("zero %d bytes at %d: %w", n, off, err)
		}
		done(off + n)
	}
	if err := d.Sync(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	const samples = 64
	for i := range int64(samples) {
		off := (size - super) / samples * i / super * super
		if err := verifyZero(d, off, min(super, size-off)); err != nil {
			return err
		}
	}
	if err := verifyZero(d, max(0, size-super), min(super, size)); err != nil {
		return err
	}
	return d.RereadPartitions()
}
