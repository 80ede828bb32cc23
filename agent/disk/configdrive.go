package disk

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"bessemer/agent/hw"
)

const (
	// ConfigLabel is the label by which cloud-init finds a config drive.
	ConfigLabel = "config-2"
	// MaxConfigDrive is the largest config drive, as Ironic-Python-Agent has
	// it.
	MaxConfigDrive = 64 << 20

	align = 1 << 20
	// maxMBR is the end of what an MBR can address, in sectors (K-03).
	maxMBR = 1 << 32
)

// ErrConfigDrive is wrapped when a config drive cannot be put on a disk.
var ErrConfigDrive = errors.New("config drive")

// WriteConfigDrive puts the image of a config drive onto a disk: into the
// partition that holds one already if it is large enough, else into a new
// partition at the disk's end; an older one is removed (K-25). note is
// something that a person should know, or "" (K-02).
func WriteConfigDrive(d hw.Disk, image []byte) (p Partition, note string, err error) {
	if err := checkConfigImage(image); err != nil {
		return p, "", err
	}
	t, err := ReadTable(d)
	if err != nil {
		return p, "", err
	}
	if t.Scheme == None {
		return p, "", fmt.Errorf("%w: the disk has no partition table, so there is no place for it; deploy an image with one, or without a config drive", ErrConfigDrive)
	}
	if image, note, err = refit(image, t.SectorSize); err != nil {
		return p, "", err
	}
	p, found, err := t.findConfigDrive(d)
	if err != nil {
		return p, "", err
	}
	if found && p.Size(t.SectorSize) < int64(len(image)) {
		if t, err = t.remove(d, p); err != nil {
			return p, "", err
		}
		found = false
	}
	if !found {
		if p, err = t.append(d, int64(len(image))); err != nil {
			return p, "", err
		}
	}
	if err := fill(d, p, t.SectorSize, image); err != nil {
		return p, "", err
	}
	return p, note, nil
}

// checkConfigImage: what is neither ISO 9660 nor FAT no operating system looks
// for.
func checkConfigImage(b []byte) error {
	switch {
	case len(b) == 0:
		return fmt.Errorf("%w: it is empty", ErrConfigDrive)
	case len(b) > MaxConfigDrive:
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrConfigDrive, len(b), MaxConfigDrive)
	case !isISO(b) && !isFAT(b):
		return fmt.Errorf("%w: it is neither an ISO 9660 nor a FAT file system; give base64 of gzip of one", ErrConfigDrive)
	}
	return nil
}

func isISO(b []byte) bool { return len(b) > 32774 && string(b[32769:32774]) == "CD001" }

func isFAT(b []byte) bool {
	return len(b) > 512 && b[510] == 0x55 && b[511] == 0xaa &&
		(bytes.HasPrefix(b[54:], []byte("FAT")) || bytes.HasPrefix(b[82:], []byte("FAT32")))
}

// findConfigDrive looks at every partition's name and label.
func (t Table) findConfigDrive(d hw.Disk) (Partition, bool, error) {
	for _, p := range t.Partitions {
		if strings.EqualFold(p.Name, ConfigLabel) {
			return p, true, nil
		}
		head := make([]byte, min(34<<10, p.Size(t.SectorSize)))
		if p.Offset(t.SectorSize)+int64(len(head)) > d.Size() {
			continue
		}
		if _, err := d.ReadAt(head, p.Offset(t.SectorSize)); err != nil {
			return p, false, fmt.Errorf("look for a config drive in partition %d: %w", p.Number, err)
		}
		if strings.EqualFold(volumeLabel(head), ConfigLabel) {
			return p, true, nil
		}
	}
	return Partition{}, false, nil
}

// volumeLabel is the label of an ISO 9660 or FAT file system, or "".
func volumeLabel(b []byte) string {
	switch {
	case isISO(b):
		return strings.TrimRight(string(b[32808:32840]), " \x00")
	case isFAT(b) && bytes.HasPrefix(b[82:], []byte("FAT32")):
		return strings.TrimRight(string(b[71:82]), " \x00")
	case isFAT(b):
		return strings.TrimRight(string(b[43:54]), " \x00")
	}
	return ""
}

// remove deletes a partition and returns the table without it.
func (t Table) remove(d hw.Disk, p Partition) (Table, error) {
	var err error
	if t.Scheme == GPT {
		clear(t.gpt.entry(p.Number - 1))
		err = t.gpt.save(d)
	} else {
		err = removeFromMBR(d, p.Number)
	}
	if err != nil {
		return t, fmt.Errorf("%w: remove the old one: %w", ErrConfigDrive, err)
	}
	return ReadTable(d)
}

// append makes a partition of at least so many bytes at the end of the disk.
func (t Table) append(d hw.Disk, size int64) (Partition, error) {
	first, last, err := t.endSpace(d.Size(), size)
	if err != nil {
		return Partition{}, err
	}
	p := Partition{Type: TypeLinux, Name: ConfigLabel, First: first, Last: last}
	if t.Scheme == GPT {
		p.Number, p.UUID, err = t.gpt.add(p)
		if err == nil {
			err = t.gpt.save(d)
		}
	} else {
		p.Type, p.Name = "0x83", ""
		p.Number, err = addToMBR(d, 0x83, uint32(first), uint32(last-first+1))
		p.UUID = fmt.Sprintf("%s-%02x", t.DiskID[2:], p.Number)
	}
	if err != nil {
		return p, fmt.Errorf("%w: make its partition: %w", ErrConfigDrive, err)
	}
	return p, nil
}

// endSpace finds room behind the last partition, aligned to 1 MiB, in sectors.
func (t Table) endSpace(diskSize, size int64) (first, last uint64, err error) {
	sector := int64(t.SectorSize)
	end := diskSize / sector // exclusive
	if t.Scheme == GPT {
		end = end - int64(t.gpt.entrySectors()) - 1
	} else {
		end = min(end, maxMBR)
	}
	per := align / sector
	n := (size + align - 1) / align * per
	start := (end - n) / per * per
	used := int64(align) / sector
	for _, p := range t.Partitions {
		used = max(used, int64(p.Last)+1)
	}
	if start < used {
		return 0, 0, fmt.Errorf("%w: %d bytes do not fit behind the image's last partition, which ends %d bytes before the end of the usable disk",
			ErrConfigDrive, size, max(0, end-used)*sector)
	}
	return uint64(start), uint64(start + n - 1), nil
}

// fill writes the image and zeroes the rest of its partition.
func fill(d hw.Disk, p Partition, sector int, image []byte) error {
	pad := (sector - len(image)%sector) % sector
	image = append(image[:len(image):len(image)], make([]byte, pad)...)
	off, size := p.Offset(sector), p.Size(sector)
	if _, err := d.WriteAt(image, off); err != nil {
		return fmt.Errorf("%w: write it to partition %d: %w", ErrConfigDrive, p.Number, err)
	}
	if err := d.Zero(off+int64(len(image)), size-int64(len(image))); err != nil {
		return fmt.Errorf("%w: clear the rest of partition %d: %w", ErrConfigDrive, p.Number, err)
	}
	if err := d.Sync(); err != nil {
		return fmt.Errorf("%w: flush it to the disk: %w", ErrConfigDrive, err)
	}
	if err := d.RereadPartitions(); err != nil {
		return fmt.Errorf("%w: read the partition table anew: %w", ErrConfigDrive, err)
	}
	return nil
}
