package disk

import (
	"encoding/binary"
	"fmt"

	"bessemer/agent/hw"
)

// maxLogical is how many logical partitions are followed.
const maxLogical = 64

// readMBR reads the primary partitions and the chain of logical ones.
func readMBR(d hw.Disk, mbr []byte, t *Table) error {
	sectors := uint64(d.Size()) / uint64(t.SectorSize)
	t.DiskID = diskSignature(mbr)
	var extended *mbrEntry
	for i := range 4 {
		e := parseEntry(mbr[446+16*i:])
		if e.kind == 0 || e.count == 0 {
			continue
		}
		if mbr[446+16*i]&0x7f != 0 || uint64(e.first) >= sectors {
			return nil // boot code of a file system that looks like a table
		}
		t.Scheme = MBR
		t.add(i+1, e, 0)
		if e.extended() && extended == nil {
			extended = &e
		}
	}
	if extended != nil {
		return readLogical(d, *extended, t)
	}
	return nil
}

type mbrEntry struct {
	active       bool
	kind         byte
	first, count uint32
}

func parseEntry(b []byte) mbrEntry {
	return mbrEntry{b[0]&0x80 != 0, b[4], binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])}
}

func (e mbrEntry) extended() bool { return e.kind == 0x05 || e.kind == 0x0f || e.kind == 0x85 }

func (t *Table) add(number int, e mbrEntry, base uint64) {
	first := base + uint64(e.first)
	t.Partitions = append(t.Partitions, Partition{
		Number: number, Type: fmt.Sprintf("0x%02x", e.kind),
		UUID:  fmt.Sprintf("%s-%02x", t.DiskID[2:], number),
		First: first, Last: first + uint64(e.count) - 1, active: e.active,
	})
}

// readLogical follows the chain in an extended partition. It may be damaged on
// purpose, so its length is bounded.
func readLogical(d hw.Disk, ext mbrEntry, t *Table) error {
	at := uint64(ext.first)
	for n := range maxLogical {
		b := make([]byte, 512)
		if int64(at)*int64(t.SectorSize) >= d.Size() {
			return fmt.Errorf("%w: the chain of logical partitions leaves the disk", ErrTable)
		}
		if _, err := d.ReadAt(b, int64(at)*int64(t.SectorSize)); err != nil {
			return fmt.Errorf("read logical partition: %w", err)
		}
		if b[510] != 0x55 || b[511] != 0xaa {
			return nil
		}
		if e := parseEntry(b[446:]); e.kind != 0 && e.count != 0 {
			t.add(5+n, e, at)
		}
		next := parseEntry(b[462:])
		if next.kind == 0 || next.count == 0 {
			return nil
		}
		at = uint64(ext.first) + uint64(next.first)
	}
	return fmt.Errorf("%w: more than %d logical partitions", ErrTable, maxLogical)
}

// addToMBR puts a partition into a free primary entry, touching nothing else
// (K-04), and returns its number.
func addToMBR(d hw.Disk, kind byte, first, count uint32) (int, error) {
	b := make([]byte, 512)
	if _, err := d.ReadAt(b, 0); err != nil {
		return 0, fmt.Errorf("read partition table: %w", err)
	}
	for i := range 4 {
		e := b[446+16*i : 462+16*i]
		if e[4] != 0 {
			continue
		}
		copy(e, []byte{0, 0xfe, 0xff, 0xff, kind, 0xfe, 0xff, 0xff}) // CHS beyond reach: use LBA
		binary.LittleEndian.PutUint32(e[8:], first)
		binary.LittleEndian.PutUint32(e[12:], count)
		_, err := d.WriteAt(b[:512], 0)
		return i + 1, err
	}
	return 0, fmt.Errorf("the image's MBR has four primary partitions already, there is no room for another")
}

// removeFromMBR clears a primary entry.
func removeFromMBR(d hw.Disk, number int) error {
	if number < 1 || number > 4 {
		return fmt.Errorf("partition %d is a logical one and cannot be replaced", number)
	}
	b := make([]byte, 512)
	if _, err := d.ReadAt(b, 0); err != nil {
		return fmt.Errorf("read partition table: %w", err)
	}
	clear(b[446+16*(number-1) : 446+16*number])
	_, err := d.WriteAt(b, 0)
	return err
}
