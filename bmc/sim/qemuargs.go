package sim

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"bessemer/bmc"
)

// Debian's files.
const (
	qemuBinary = "qemu-system-x86_64"
	ovmfCode   = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	ovmfVars   = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

func (c QEMUConfig) withDefaults() QEMUConfig {
	c.MemoryMiB, c.CPUs = max(c.MemoryMiB, 0), max(c.CPUs, 0)
	if c.MemoryMiB == 0 {
		c.MemoryMiB = 768
	}
	if c.CPUs == 0 {
		c.CPUs = 1
	}
	if c.Accel == "" {
		c.Accel = "tcg,thread=multi"
	}
	if c.Code == "" {
		c.Code, c.Vars = ovmfCode, ovmfVars
	}
	if len(c.Modes) == 0 {
		c.Modes = []string{UEFI}
	}
	c.Disks = slices.Clone(c.Disks)
	for i := range c.Disks {
		d := &c.Disks[i]
		if d.Name == "" {
			d.Name = fmt.Sprintf("Disk%d", i)
		}
		if d.Path == "" {
			d.Path = filepath.Join(c.Dir, strings.ToLower(d.Name)+".raw")
		}
		if d.Bus == "" {
			d.Bus = VirtioBlk
		}
		if d.Model == "" || d.Bus == NVMe { // that one cannot be chosen
			d.Model = map[Bus]string{NVMe: "QEMU NVMe Ctrl", SATA: "QEMU HARDDISK", VirtioSCSI: "QEMU HARDDISK"}[d.Bus]
		}
	}
	return c
}

// check reports every fault at once.
func (c QEMUConfig) check() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("no directory given"))
	}
	if _, err := uuid.Parse(c.UUID); err != nil {
		errs = append(errs, fmt.Errorf("uuid %q: %w", c.UUID, err))
	}
	for _, n := range c.NICs {
		if _, err := net.ParseMAC(n.MAC); err != nil {
			errs = append(errs, fmt.Errorf("network card: %w", err))
		}
	}
	for _, d := range c.Disks {
		if len(d.Serial) > 20 {
			errs = append(errs, fmt.Errorf("disk %s: serial %q is longer than 20 characters", d.Name, d.Serial))
		}
	}
	for _, m := range c.Modes {
		if m != UEFI && m != BIOS {
			errs = append(errs, fmt.Errorf("boot mode %q is neither %s nor %s", m, UEFI, BIOS))
		}
	}
	if slices.Contains(c.Modes, UEFI) {
		for _, f := range []string{c.Code, c.Vars} {
			if _, err := os.Stat(f); err != nil {
				errs = append(errs, fmt.Errorf("uefi firmware (Debian package ovmf): %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// vars is the machine's own copy of the UEFI variables.
func (c QEMUConfig) vars() string { return filepath.Join(c.Dir, "uefi-vars.fd") }

// args is QEMU's command line for one start. The control socket is file
// descriptor 3.
//
// A reset ends the process, and a process that ends stays paused until it is
// killed: so the event that says why is never lost.
func (c QEMUConfig) args(boot bmc.Boot) []string {
	a := []string{
		"-name", "guest=" + opt(c.Name),
		"-nodefaults", "-no-user-config", "-display", "none",
		"-machine", "q35,graphics=off", "-accel", c.Accel, "-cpu", "max",
		"-m", fmt.Sprint(c.MemoryMiB), "-smp", fmt.Sprint(c.CPUs),
		"-action", "reboot=shutdown,shutdown=pause",
		"-chardev", "socket,id=monitor,fd=3", "-mon", "chardev=monitor,mode=control",
		"-chardev", "file,id=console,append=on,path=" + opt(filepath.Join(c.Dir, "console.log")), "-serial", "chardev:console",
		"-uuid", c.UUID,
		"-smbios", fmt.Sprintf("type=1,manufacturer=%s,product=%s,serial=%s,uuid=%s", opt(c.Manufacturer), opt(c.Model), opt(c.Serial), c.UUID),
		"-device", "virtio-rng-pci",
	}
	if boot.Mode == UEFI {
		a = append(a,
			"-drive", "if=pflash,unit=0,format=raw,readonly=on,file="+opt(c.Code),
			"-drive", "if=pflash,unit=1,format=raw,file="+opt(c.vars()))
	}
	if c.Kernel != "" {
		a = append(a, "-kernel", c.Kernel, "-append", c.Append)
	}
	if c.Initrd != "" {
		a = append(a, "-initrd", c.Initrd)
	}
	return append(a, c.devices(bootOrder(boot.Device))...)
}

// devices gives each device its place in the boot order.
func (c QEMUConfig) devices(order []bmc.BootDevice) []string {
	var a []string
	index := func(d bmc.BootDevice, i int) string {
		return fmt.Sprintf(",bootindex=%d", 1+slices.Index(order, d)*16+i)
	}
	for i, n := range c.NICs {
		a = append(a, n.args(i, index(bmc.PXE, i))...)
	}
	if slices.ContainsFunc(c.Disks, func(d Disk) bool { return d.Bus == VirtioSCSI }) {
		a = append(a, "-device", "virtio-scsi-pci,id=scsi")
	}
	for i, d := range c.Disks {
		a = append(a, d.args(i, index(bmc.Disk, i))...)
	}
	if c.CDROM != "" {
		a = append(a,
			"-drive", "if=none,id=cd,media=cdrom,format=raw,readonly=on,file="+opt(c.CDROM),
			"-device", "ide-cd,drive=cd,bus=ide.5"+index(bmc.CDROM, 0))
	}
	return a
}

func (n NIC) args(i int, bootIndex string) []string {
	model := n.Model
	if model == "" {
		model = "virtio-net-pci"
	}
	dev := fmt.Sprintf("%s,mac=%s%s", model, n.MAC, bootIndex)
	switch {
	case n.NoROM:
		dev += ",romfile="
	case n.ROM != "":
		dev += ",romfile=" + opt(n.ROM)
	}
	if n.Tap == "" {
		return []string{"-device", dev}
	}
	return []string{
		"-netdev", fmt.Sprintf("tap,id=net%d,ifname=%s,script=no,downscript=no", i, n.Tap),
		"-device", fmt.Sprintf("%s,netdev=net%d", dev, i),
	}
}

// args attaches a disk. Writes need not reach the host's own disk: a killed
// QEMU loses nothing that the guest has written.
func (d Disk) args(i int, bootIndex string) []string {
	drive := fmt.Sprintf("if=none,id=disk%d,format=raw,cache=unsafe,discard=unmap,file=%s", i, opt(d.Path))
	var dev string
	switch d.Bus {
	case NVMe:
		dev = "nvme"
	case SATA:
		dev = fmt.Sprintf("ide-hd,bus=ide.%d,model=%s", i, opt(d.Model))
	case VirtioSCSI:
		dev = "scsi-hd,bus=scsi.0"
	default:
		dev = "virtio-blk-pci"
	}
	return []string{"-drive", drive, "-device", fmt.Sprintf("%s,drive=disk%d,serial=%s%s", dev, i, opt(d.Serial), bootIndex)}
}

// opt protects a value within one of QEMU's comma separated options.
func opt(s string) string { return strings.ReplaceAll(s, ",", ",,") }
