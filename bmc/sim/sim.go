// Package sim is the simulated rack: machines that are a QEMU process
// ([QEMU]) or only a few fields in memory ([Memory]), and the management
// controllers in front of them ([Redfish]). Drivers and the whole appliance
// are tested against it over real protocols.
//
// A controller of this package does what it says: a power action has happened
// when the machine's state says so, and a boot override for the next boot is
// used by exactly one start of the machine, whoever caused that start.
package sim

import (
	"context"
	"errors"

	"bessemer/bmc"
	"bessemer/store"
)

// Boot modes, as in bmc.Boot.
const (
	UEFI = "uefi"
	BIOS = "bios"
)

// Restart asks the operating system to shut down, and starts the machine again
// once it has. It is a power action that only the simulator knows: drivers do
// not use it, other clients of a controller do.
const Restart bmc.PowerAction = "restart"

var (
	// ErrOff is returned for what only a running machine can do.
	ErrOff = errors.New("machine is off")
	// ErrBootMode is returned for a boot mode that a machine does not have.
	ErrBootMode = errors.New("boot mode not supported by the machine")
	// ErrBootDevice is returned for a boot device that a machine does not have.
	ErrBootDevice = errors.New("boot device not supported by the machine")
)

// A Machine is what a simulated controller controls. All methods may be used
// concurrently.
type Machine interface {
	// Spec says what the machine is; it never changes.
	Spec() Spec
	// PowerState is store.PowerOn, store.PowerOff, or "" while it changes.
	PowerState() store.PowerState
	// Power does a power action. It returns once that is under way; On, and
	// ForceOff succeed in the state that they ask for, the others return
	// ErrOff on a machine that is off.
	Power(context.Context, bmc.PowerAction) error
	// Boot returns the boot override; its Device is "" when there is none.
	Boot() bmc.Boot
	// SetBoot sets the override for the next start, or for all when it is
	// persistent. Device "" removes it; Mode "" leaves the boot mode.
	SetBoot(bmc.Boot) error
	// BootMode is the boot mode of the running system, or of the last one.
	BootMode() string
	// SetBootMode sets the boot mode from the next start on.
	SetBootMode(mode string) error
	// NextBootMode is the mode of the next start.
	NextBootMode() string
	// Console names the file that the serial console is appended to, ""
	// when there is none.
	Console() string
}

// A Spec describes a machine's hardware.
type Spec struct {
	Name         string // letters, digits and dashes; its place in the rack
	UUID         string // canonical, as in SMBIOS
	Manufacturer string
	Model        string
	Serial       string
	MemoryMiB    int
	CPUs         int
	Modes        []string // boot modes, the default first
	NICs         []NIC
	Disks        []Disk
}

// A NIC is a network card.
type NIC struct {
	MAC    string // lower case, with colons
	Model  string // QEMU's name: virtio-net-pci, e1000e, e1000, vmxnet3
	Tap    string // the tap device it is plugged into; "" for no cable
	ROM    string // option ROM file; "" for QEMU's own
	NoROM  bool   // no option ROM: UEFI firmware uses its own driver
	SpeedM int    // Mbit/s as the controller shows it, 0 for 1000
}

// A Disk is a disk whose content is a raw file.
type Disk struct {
	Name   string // for the controller: "Disk0"
	Bus    Bus
	Size   int64 // bytes
	Serial string
	Model  string
	Path   string // raw file; QEMU creates a sparse one of Size when it is missing
}

// A Bus is how a disk is attached.
type Bus string

// Buses.
const (
	VirtioBlk  Bus = "virtio-blk"
	VirtioSCSI Bus = "virtio-scsi"
	SATA       Bus = "sata"
	NVMe       Bus = "nvme"
)
