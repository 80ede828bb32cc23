package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"bessemer/agent/hw"
)

// Scheme is the kind of a partition table.
type Scheme string

// Partition tables.
const (
	None Scheme = ""
	GPT  Scheme = "gpt"
	MBR  Scheme = "mbr"
)

// A Table is a disk's partition table.
type Table struct {
	Scheme     Scheme
	DiskID     string // GPT: the disk's GUID; MBR: "0x1234abcd"
	SectorSize int
	Partitions []Partition // in the order of their numbers
	BootCode   bool        // the first sector has code for BIOS

	gpt *gptHeader
}

// A Partition is one entry; LBAs are in sectors, Last is included.
type Partition struct {
	Number      int
	Type        string // GPT: a GUID; MBR: "0x83"
	UUID        string // lower case; MBR: "1234abcd-01"
	Name        string // GPT only
	First, Last uint64
	active      bool // MBR only: flagged for booting
}

// Types of partitions.
const (
	TypeESP    = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
	TypeLinux  = "0fc63daf-8483-4772-8e79-3d69d8477de4"
	typeGPFS   = "37affc90-ef7d-4e96-91c3-2d7ae055b174"
	mbrESP     = "0xef"
	mbrProtect = 0xee
)

// ErrTable is wrapped when a partition table is damaged.
var ErrTable = errors.New("partition table damaged")

// Offset is where a partition begins, in bytes.
func (p Partition) Offset(sector int) int64 { return int64(p.First) * int64(sector) }

// Size is a partition's size in bytes.
func (p Partition) Size(sector int) int64 { return int64(p.Last-p.First+1) * int64(sector) }

// ESP returns the EFI system partition, or nil. With an MBR, a FAT partition
// that is only flagged for booting counts as one if there is none (U-02).
func (t Table) ESP() *Partition {
	for i, p := range t.Partitions {
		if p.Type == TypeESP || p.Type == mbrESP {
			return &t.Partitions[i]
		}
	}
	for i, p := range t.Partitions {
		if p.active && slices.Contains(fatTypes, p.Type) {
			return &t.Partitions[i]
		}
	}
	return nil
}

// fatTypes are an MBR's types of FAT partitions.
var fatTypes = []string{"0x01", "0x04", "0x06", "0x0b", "0x0c", "0x0e"}

// ReadTable reads a disk's partition table. A disk without one gives None.
func ReadTable(d hw.Disk) (Table, error) {
	t := Table{SectorSize: d.SectorSize()}
	head := make([]byte, 512)
	if _, err := d.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return t, fmt.Errorf("read partition table: %w", err)
	}
	if head[510] != 0x55 || head[511] != 0xaa {
		return t, nil
	}
	t.BootCode = !allZero(head[:440])
	if !isProtective(head) {
		return t, readMBR(d, head, &t)
	}
	return t, readGPT(d, &t)
}

func allZero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}

// isProtective reports whether an MBR is there to protect a GPT. A hybrid one
// has other entries too.
func isProtective(mbr []byte) bool {
	for i := range 4 {
		if mbr[446+16*i+4] == mbrProtect {
			return true
		}
	}
	return false
}

// diskSignature is an MBR's disk identifier as Ironic writes it.
func diskSignature(mbr []byte) string {
	return fmt.Sprintf("0x%08x", binary.LittleEndian.Uint32(mbr[440:]))
}
