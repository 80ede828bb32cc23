package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A mount is a file system to mount. One that needs a directory that is not
// there is left out: EFI variables on a machine booted by BIOS.
type mount struct {
	kind, on string
	flags    uintptr
	data     string
	needs    string
}

const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

var kernelMounts = []mount{
	{kind: "proc", on: "/proc", flags: quiet},
	{kind: "sysfs", on: "/sys", flags: quiet},
	{kind: "devtmpfs", on: "/dev", flags: unix.MS_NOSUID, data: "mode=0755"},
	{kind: "devpts", on: "/dev/pts", flags: unix.MS_NOSUID | unix.MS_NOEXEC, data: "mode=0620,ptmxmode=0666"},
	{kind: "tmpfs", on: "/run", flags: unix.MS_NOSUID | unix.MS_NODEV, data: "mode=0755"},
	{kind: "tmpfs", on: "/tmp", flags: unix.MS_NOSUID | unix.MS_NODEV, data: "mode=1777"},
	{kind: "securityfs", on: "/sys/kernel/security", flags: quiet, needs: "/sys/kernel/security"},
}

var moduleMounts = []mount{
	{kind: "efivarfs", on: "/sys/firmware/efi/efivars", flags: quiet, needs: "/sys/firmware/efi/efivars"},
}

func mountAll(all []mount) error {
	var errs []error
	for _, m := range all {
		errs = append(errs, m.do())
	}
	return errors.Join(errs...)
}

func (m mount) do() error {
	if _, err := os.Stat(m.needs); m.needs != "" && err != nil {
		return nil
	}
	if err := os.MkdirAll(m.on, 0o755); err != nil {
		return fmt.Errorf("mount %s: %w", m.on, err)
	}
	err := unix.Mount(m.kind, m.on, m.kind, m.flags, m.data)
	if err != nil && !errors.Is(err, unix.EBUSY) { // busy: the kernel has mounted it already
		return fmt.Errorf("mount %s on %s: %w", m.kind, m.on, err)
	}
	return nil
}

// sysctls are kernel settings. A panic, our own included, reboots after a
// minute. A machine with several cards in one network answers ARP for each
// address only where it belongs.
var sysctls = map[string]string{
	"kernel/panic":                   "60",
	"net/ipv4/conf/all/arp_ignore":   "1",
	"net/ipv4/conf/all/arp_announce": "2",
}

func writeSysctls() error {
	var errs []error
	for name, value := range sysctls {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0); err != nil {
			errs = append(errs, fmt.Errorf("set kernel parameter: %w", err))
		}
	}
	return errors.Join(errs...)
}
