// Package hw is the agent's view of the machine it runs on. Linux is the real
// one; Fake is files and maps, for tests and for the simulated rack.
package hw

import (
	"context"
	"io"

	"bessemer/agent/wire"
)

// A Machine is the hardware under the agent.
type Machine interface {
	// Inventory reads the whole hardware anew.
	Inventory(context.Context) (wire.Inventory, error)
	// Disks lists every block device that is a whole disk, also those that
	// may never be written to (read-only, removable, virtual media).
	Disks(context.Context) ([]wire.Disk, error)
	// OpenDisk opens a disk by its name ("/dev/sda"); writable ones are
	// opened exclusively.
	OpenDisk(name string, writable bool) (Disk, error)
	// EFI returns the EFI variables, or nil on a machine booted by BIOS.
	EFI() EFI
	// Logs returns the system's logs by name, for collect_system_logs.
	Logs() map[string]io.Reader
	// Sync writes all buffers to the disks.
	Sync()
	// PowerOff and Reboot end the machine; they do not return on success.
	PowerOff() error
	Reboot() error
}

// A Disk is an open disk.
type Disk interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() int64             // bytes
	SectorSize() int         // logical, bytes
	Sync() error             // returns when everything is on the medium
	Zero(off, n int64) error // makes a range read as zeros, by the fastest means
	// Discard tells the disk that its whole content is not needed; what it
	// reads as afterwards is undefined. ErrUnsupported from errors otherwise.
	Discard() error
	// RereadPartitions makes the kernel read the partition table anew,
	// waiting a while for other users of the disk.
	RereadPartitions() error
}

// EFI is the firmware's variables that booting needs.
type EFI interface {
	// Entries lists the boot entries.
	Entries() ([]BootEntry, error)
	// SetEntry creates a boot entry for a loader on a GPT partition, puts it
	// first in BootOrder, and removes others of the same label. It returns
	// the entry's number.
	SetEntry(label, loader string, part Partition) (int, error)
	// Delete removes an entry, also from BootOrder.
	Delete(number int) error
}

// A BootEntry is one Boot#### variable.
type BootEntry struct {
	Number   int
	Label    string
	Active   bool
	PartUUID string // lower case, of the partition its path begins with, if any
	Loader   string // path on that partition
}

// A Partition is a GPT partition, as a boot entry names it.
type Partition struct {
	Number            int
	FirstLBA, LastLBA uint64
	UUID              string // lower case
	SectorSize        int
}
