package disk

import (
	"fmt"

	"bessemer/agent/hw"
)

// HasConfigDrive reports whether a disk holds a config drive. A disk without a
// partition table that can be read holds none.
func HasConfigDrive(d hw.Disk) (bool, error) {
	t, err := ReadTable(d)
	if err != nil || t.Scheme == None {
		return false, nil
	}
	_, found, err := t.findConfigDrive(d)
	return found, err
}

// DropConfigDrives removes the config drives from a disk, so that a system on
// another disk does not take one of them for its own (K-25). Nothing else on the
// disk changes; one that other machines may be using is refused (ErrShared).
func DropConfigDrives(d hw.Disk) error {
	for {
		t, err := ReadTable(d)
		if err != nil {
			return err
		}
		if err := refuseShared(d, t); err != nil {
			return err
		}
		p, found, err := t.findConfigDrive(d)
		if err != nil || !found {
			return err
		}
		if err := t.drop(d, p); err != nil {
			return fmt.Errorf("%w: remove an old one from partition %d: %w", ErrConfigDrive, p.Number, err)
		}
	}
}

// drop clears the label of a config drive and takes its partition out of a GPT.
// An entry of an MBR stays, empty: it may be a logical one.
func (t Table) drop(d hw.Disk, p Partition) error {
	if err := d.Zero(p.Offset(t.SectorSize), min(super, p.Size(t.SectorSize))); err != nil {
		return err
	}
	if t.Scheme == GPT {
		clear(t.gpt.entry(p.Number - 1))
		if err := t.gpt.save(d); err != nil {
			return err
		}
	}
	if err := d.Sync(); err != nil {
		return err
	}
	return d.RereadPartitions()
}
