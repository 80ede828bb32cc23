package firmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"bessemer/bmc/sim/flaw"
)

// A Wire is the network between a machine and the appliance. It is used by
// many machines at once.
type Wire interface {
	// DHCP carries a packet to a port of the appliance, 67 or 4011, and the
	// reply back; nil for none. An error means that the appliance does not
	// take packets now.
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
	UUID      string           // SMBIOS, canonical form; "" for none
	Mode      string           // sim.UEFI or sim.BIOS
	ARM64     bool             // UEFI of a 64-bit ARM machine
	HTTPBoot  bool             // UEFI HTTP boot instead of PXE
	ROMIsIPXE bool             // the card's ROM is an iPXE itself
	Flaws     *flaw.Set        // nil: none
	Console   io.Writer        // what a screen would show; nil: nowhere
	Pace      float64          // waits last so many times as long as with real machines; 0 = 1
	Seed      uint64           // fixes transaction ids and the spread of waits

	floor time.Duration // least patience, for tests with a server that never answers
}

// An Action is what the machine does after network boot.
type Action string

// Actions.
const (
	Ramdisk Action = "ramdisk" // kernel and initramfs run
	Disk    Action = "disk"    // the next boot device, as the boot script asked
	Reboot  Action = "reboot"
	Off     Action = "off"
)

// ErrStuck is returned when the machine stands at a menu, a prompt or a
// panicked kernel: it does nothing more until it is reset. After any other
// error firmware goes on to its next boot device.
var ErrStuck = errors.New("machine hangs")

// A Boot is what network boot came to.
type Boot struct {
	Action Action
	Lease  Lease    // of the last exchange; zero if there was none
	Args   []string // kernel command line, with Action Ramdisk
	Files  []File   // what was fetched whole, in order
}

// A Lease is the address that the machine has.
type Lease struct {
	IP     netip.Addr
	Prefix netip.Prefix // of its network
	Server netip.Addr
	For    time.Duration
}

// A File is something that was fetched whole.
type File struct {
	Name, URL string
	Size      int64
	SHA256    string // hex
}

// Boot modes, as in package sim.
const (
	uefi = "uefi"
	bios = "bios"
)

func (c *Config) check() error {
	switch {
	case c.Wire == nil:
		return errors.New("check firmware: no wire")
	case len(c.MAC) != 6:
		return fmt.Errorf("check firmware: MAC %q has not 6 bytes", c.MAC)
	case c.Mode != uefi && c.Mode != bios:
		return fmt.Errorf("check firmware: boot mode %q, want uefi or bios", c.Mode)
	case c.Pace < 0:
		return fmt.Errorf("check firmware: pace %g is below 0", c.Pace)
	}
	if c.Pace == 0 {
		c.Pace = 1
	}
	return nil
}

// NetBoot boots over the network as the firmware of c's machine does. The
// error says what failed at which step, and with what is in the Boot all the
// same; see [ErrStuck].
func NetBoot(ctx context.Context, c Config) (Boot, error) {
	if err := c.check(); err != nil {
		return Boot{}, err
	}
	m := newMachine(c)
	action, err := m.boot(ctx)
	if ctx.Err() != nil {
		err = fmt.Errorf("boot over the network: %w", context.Cause(ctx))
	}
	if err != nil {
		action = ""
	}
	b := Boot{Action: action, Lease: m.nic.lease, Files: m.files}
	if action == Ramdisk {
		b.Args = m.args
	}
	return b, err
}
