package firmware

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"

	"bessemer/bmc/sim/flaw"
)

// A Wire is the network between a machine and the appliance.
type Wire interface {
	// DHCP carries a packet to a port of the appliance, 67 or 4011, and the
	// reply back; nil for none. An error is to the machine as a lost packet.
	DHCP(ctx context.Context, packet []byte, port int) (reply []byte, err error)
	// TFTP is where the appliance's port 69 is reached; zero: none.
	TFTP() netip.AddrPort
	// Ramdisk is the SHA-256 (hex) of what a machine should get; "" for unknown.
	Ramdisk() (kernel, initrd string)
}

// Config says what boots, and how.
type Config struct {
	Wire      Wire
	MAC       net.HardwareAddr // of the card that boots
	UUID      string           // SMBIOS, canonical form
	Mode      string           // sim.UEFI or sim.BIOS
	HTTPBoot  bool             // UEFI HTTP boot instead of PXE
	ROMIsIPXE bool             // the card's ROM is an iPXE itself
	Flaws     *flaw.Set        // nil: none
	Console   io.Writer        // what a screen would show; nil: nowhere
	Pace      float64          // waits last so many times as long as with real machines; 0 = 1
	Seed      uint64           // fixes transaction ids and the spread of waits
}

// An Action is what the machine does after network boot.
type Action string

// Actions.
const (
	Ramdisk Action = "ramdisk" // kernel and initramfs run
	Disk    Action = "disk"    // the next boot device, as the boot script asked
	Reboot  Action = "reboot"
)

// ErrStuck is returned when the machine stands at a menu, a prompt or a
// panicked kernel: it does nothing more until it is reset. After any other
// error firmware goes on to its next boot device.
var ErrStuck = errors.New("machine hangs")

// A Boot is what network boot came to.
type Boot struct {
	Action Action
	Lease  Lease
	Args   []string // kernel command line, with Action Ramdisk
	Files  []File   // what was fetched, in order
}

// A Lease is the address that the machine has.
type Lease struct {
	IP     netip.Addr
	Prefix netip.Prefix // of its network
	Server netip.Addr
}

// A File is something that was fetched whole.
type File struct {
	Name, URL string
	Size      int64
	SHA256    string // hex
}
