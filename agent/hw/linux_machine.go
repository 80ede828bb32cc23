//go:build linux

package hw

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"bessemer/agent/wire"
)

// LinuxOptions say what the Linux machine cannot find out itself.
type LinuxOptions struct {
	// BootMAC is the card that the machine booted from, or nil.
	BootMAC net.HardwareAddr
	// Settle waits until the drivers have found their disks (quirk K-05). Nil:
	// they have.
	Settle func(context.Context)
	// LLDP returns what a card has heard of the switch that it is plugged
	// into, in Ironic-Python-Agent's form; nil for nothing.
	LLDP func(card string) any
	// Logs are further logs for collect_system_logs, by name.
	Logs map[string]func() []byte
}

// Linux is the machine under this process: what the kernel tells of it in /sys
// and /proc, no other program is asked.
type Linux struct {
	o    LinuxOptions
	root string // "/", or a copy of /sys and /proc in tests
	net  func() ([]card, error)
	bmc  struct {
		mu     sync.Mutex
		known  bool
		v4, v6 string
	}
}

var _ Machine = (*Linux)(nil)

// NewLinux returns the machine that this process runs on.
func NewLinux(o LinuxOptions) *Linux {
	return &Linux{o: o, root: "/", net: kernelCards}
}

// Inventory implements Machine.
func (m *Linux) Inventory(ctx context.Context) (wire.Inventory, error) {
	disks, err := m.Disks(ctx)
	if err != nil {
		return wire.Inventory{}, fmt.Errorf("read inventory: %w", err)
	}
	cards, err := m.interfaces()
	if err != nil {
		return wire.Inventory{}, fmt.Errorf("read inventory: %w", err)
	}
	dmi := m.dmi()
	inv := wire.Inventory{
		Interfaces: cards, CPU: m.cpu(), Disks: disks, Memory: m.memory(dmi),
		SystemVendor: dmi.system(), Boot: m.boot(),
	}
	inv.BMCAddress, inv.BMCV6Address = m.bmcAddresses()
	inv.Hostname, _ = os.Hostname() // none is as good
	return inv, nil
}

func (m *Linux) boot() wire.BootInfo {
	b := wire.BootInfo{CurrentBootMode: "bios", PXEInterface: m.o.BootMAC.String()}
	if m.exists("sys/firmware/efi") {
		b.CurrentBootMode = "uefi"
		b.SecureBoot = m.secureBoot()
	}
	return b
}

// secureBoot reads the firmware's variable: four bytes of attributes, then 1
// or 0 (UEFI 2.10, section 3.3). Nil: it has none.
func (m *Linux) secureBoot() *bool {
	b, err := os.ReadFile(m.path("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"))
	if err != nil || len(b) != 5 {
		return nil
	}
	on := b[4] == 1
	return &on
}

// Sync implements Machine.
func (m *Linux) Sync() { unix.Sync() }

// PowerOff implements Machine.
func (m *Linux) PowerOff() error {
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		return fmt.Errorf("power off: %w", err)
	}
	return nil
}

// Reboot implements Machine.
func (m *Linux) Reboot() error {
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		return fmt.Errorf("reboot: %w", err)
	}
	return nil
}

// path is a file below the root: "sys/block/sda".
func (m *Linux) path(elem ...string) string {
	return filepath.Join(m.root, filepath.Join(elem...))
}

func (m *Linux) exists(name string) bool {
	_, err := os.Stat(m.path(name))
	return err == nil
}

// attr reads a file of /sys or /proc, "" if there is none.
func attr(elem ...string) string {
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.TrimRight(string(b), "\x00"))
}

// linkBase is the last element of what a link points to: a device's driver,
// subsystem or bus address.
func linkBase(elem ...string) string {
	target, err := os.Readlink(filepath.Join(elem...))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}
