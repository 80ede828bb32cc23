package disk

import (
	"fmt"

	"bessemer/agent/hw"
)

// Settle makes a disk that an image was written to whole: a GPT's backup moves
// from the image's end to the disk's (K-01), both copies are verified, and the
// kernel reads the table anew. An MBR is left as it is (K-04). The image's own
// bytes stay, except those of the GPT header.
func Settle(d hw.Disk) (Table, error) {
	t, err := ReadTable(d)
	if err != nil {
		return t, err
	}
	last := uint64(d.Size())/uint64(t.SectorSize) - 1
	if t.Scheme == GPT && (t.gpt.u64(24) != 1 || t.gpt.alternate() != last || verifyGPT(d, t.SectorSize) != nil) {
		if err := t.moveBackup(d); err != nil {
			return t, err
		}
	}
	if err := d.Sync(); err != nil {
		return t, fmt.Errorf("flush partition table: %w", err)
	}
	if err := d.RereadPartitions(); err != nil {
		return t, fmt.Errorf("read partition table anew: %w", err)
	}
	return t, nil
}

func (t Table) moveBackup(d hw.Disk) error {
	last := uint64(d.Size())/uint64(t.SectorSize) - 1
	for _, p := range t.Partitions {
		if p.Last >= last-t.gpt.entrySectors() {
			return fmt.Errorf("%w: partition %d ends at sector %d, where the backup table belongs; the disk is a few sectors too small for the image",
				ErrTable, p.Number, p.Last)
		}
	}
	if err := t.gpt.save(d); err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return fmt.Errorf("flush partition table: %w", err)
	}
	return verifyGPT(d, t.SectorSize)
}

// verifyGPT reads both copies back and holds them against each other.
func verifyGPT(d hw.Disk, sector int) error {
	last := uint64(d.Size())/uint64(sector) - 1
	a, err := loadGPT(d, 1, sector)
	if err != nil {
		return fmt.Errorf("verify primary table: %w", err)
	}
	b, err := loadGPT(d, last, sector)
	if err != nil {
		return fmt.Errorf("verify backup table: %w", err)
	}
	if a.u32(88) != b.u32(88) || a.alternate() != last || b.alternate() != 1 || guid(a.header[56:]) != guid(b.header[56:]) {
		return fmt.Errorf("%w: the two copies differ after writing", ErrTable)
	}
	return nil
}
