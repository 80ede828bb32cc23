//go:build linux

package hw

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"bessemer/agent/wire"
)

// notDisks are block devices that are no disks: the kernel's own, optical
// drives and floppies, boot and RPMB areas of eMMC, and what is made of disks
// (md, dm). Nothing in the ramdisk assembles the latter.
var notDisks = regexp.MustCompile(`^(loop|ram|zram|fd|sr|md|dm-|nbd|mtdblock|drbd|rbd|bcache|zd|pmem.*s$)\d*|^mmcblk\d+(boot\d+|rpmb|gp\d+)$`)

// Disks implements Machine.
func (m *Linux) Disks(ctx context.Context) ([]wire.Disk, error) {
	if m.o.Settle != nil {
		m.o.Settle(ctx)
	}
	entries, err := os.ReadDir(m.path("sys/block")) // in the order of their names
	if err != nil {
		return nil, fmt.Errorf("list disks: %w", err)
	}
	disks := []wire.Disk{}
	for _, e := range entries {
		name := e.Name()
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("list disks: %w", err)
		}
		// Hidden ones are the paths below a multipath NVMe namespace.
		if notDisks.MatchString(name) || attr(m.path("sys/block", name, "hidden")) == "1" {
			continue
		}
		disks = append(disks, m.disk(name))
	}
	return disks, nil
}

// disk describes one disk. What cannot be read stays empty: an odd disk must
// not hide the others.
func (m *Linux) disk(name string) wire.Disk {
	dir := m.path("sys/block", name)
	device := filepath.Join(dir, "device")
	sysfs, _ := filepath.EvalSymlinks(device) // "" matches nothing below
	d := wire.Disk{
		Name:               "/dev/" + strings.ReplaceAll(name, "!", "/"), // cciss!c0d0
		Size:               number(dir, "size") * 512,                    // always in units of 512 bytes
		Rotational:         attr(dir, "queue/rotational") == "1",
		LogicalSectorSize:  int(number(dir, "queue/logical_block_size")),
		PhysicalSectorSize: int(number(dir, "queue/physical_block_size")),
		ReadOnly:           attr(dir, "ro") == "1",
		Removable:          attr(dir, "removable") == "1",
		Transport:          transport(name, sysfs),
		HCTL:               hctl(filepath.Base(sysfs)),
		Model:              attr(device, "model"),
		Vendor:             vendor(attr(device, "vendor")),
	}
	m.identify(&d, name, sysfs)
	d.VirtualMedia = virtualMedia(d)
	if path := byPath(dir, sysfs); path != "" {
		d.ByPath = "/dev/disk/by-path/" + path
	}
	return d
}

// identify finds serial number and world wide name, each kind of disk by its
// own means.
func (m *Linux) identify(d *wire.Disk, name, sysfs string) {
	dir := m.path("sys/block", name)
	switch d.Transport {
	case "nvme":
		d.Serial = attr(sysfs, "serial")
		if d.Model == "" {
			d.Model = attr(sysfs, "model")
		}
		d.WWN = attr(dir, "wwid")
		d.WWNWithExtension = d.WWN
	case "virtio":
		if d.HCTL == "" { // virtio-blk has the serial beside the size
			d.Serial = attr(dir, "serial")
			return
		}
		m.identifySCSI(d, name, sysfs)
	case "mmc":
		d.Model, d.Serial = attr(sysfs, "name"), strings.TrimPrefix(attr(sysfs, "serial"), "0x")
	case "usb":
		// Many USB disks hang when asked for pages that they do not have.
		d.Serial = usbSerial(sysfs)
		identifyPages(d, pagesOf(sysfs))
	default:
		m.identifySCSI(d, name, sysfs)
	}
}

// identifySCSI reads the pages that the kernel has read, or asks the disk
// where it has not.
func (m *Linux) identifySCSI(d *wire.Disk, name, sysfs string) {
	p := pagesOf(sysfs)
	if (p.serial == nil || p.ids == nil) && m.root == "/" {
		p.ask("/dev/" + name)
	}
	identifyPages(d, p)
}

func identifyPages(d *wire.Disk, p pages) {
	if model, serial, ok := ataIdentity(p.ata); ok {
		d.Model, d.Serial = model, serial
	}
	if serial := unitSerial(p.serial); d.Serial == "" {
		d.Serial = serial
	}
	wwn, extension := worldWideName(p.ids)
	if wwn == "" {
		return
	}
	d.WWN, d.WWNWithExtension = "0x"+wwn, "0x"+wwn+extension
	if extension != "" {
		d.WWNVendorExtension = "0x" + extension
	}
}

func number(elem ...string) int64 {
	n, err := strconv.ParseInt(attr(elem...), 10, 64)
	if err != nil || n < 0 || n > 1<<54 {
		return 0
	}
	return n
}

// vendor leaves out numbers: virtio has its PCI number where SCSI has a name.
func vendor(s string) string {
	if strings.HasPrefix(s, "0x") {
		return ""
	}
	return s
}

var hctlName = regexp.MustCompile(`^\d+:\d+:\d+:\d+$`)

// hctl is a SCSI disk's host, channel, target and unit.
func hctl(name string) string {
	if hctlName.MatchString(name) {
		return name
	}
	return ""
}

var (
	ataDir = regexp.MustCompile(`/ata\d+/`)
	sasDir = regexp.MustCompile(`/(end_device-|port-\d+:|sas_)`)
)

// transport tells how a disk is attached, by the buses in its path in /sys. A
// disk made by a RAID controller is just "scsi".
func transport(name, sysfs string) string {
	path := sysfs + "/"
	switch {
	case strings.HasPrefix(name, "nvme"):
		return "nvme"
	case strings.HasPrefix(name, "mmcblk"):
		return "mmc"
	case strings.Contains(path, "/virtio"):
		return "virtio"
	case strings.Contains(path, "/usb"):
		return "usb"
	case ataDir.MatchString(path):
		return "sata"
	case sasDir.MatchString(path):
		return "sas"
	case strings.Contains(path, "/rport-"):
		return "fc"
	case strings.Contains(path, "/session"):
		return "iscsi"
	case hctl(filepath.Base(sysfs)) != "":
		return "scsi"
	}
	return ""
}

// bmcWords are in the names that BMCs give to the USB disks which they show to
// their machine: Dell's iDRAC, HPE's iLO, AMI and ATEN (Supermicro), Cisco's
// vKVM, Huawei's vmDisk, IBM's and Lenovo's composite device (quirk V-14).
var bmcWords = []string{"virtual", "idrac", "ilo ", "vkvm", "vmdisk", "aten ", "composite device", "lcdrive", "bmc", "remote media", "rndis", "vmedia"}

// virtualMedia tells a BMC's USB disk. A hypervisor's or RAID controller's
// "virtual disk" is not on USB.
func virtualMedia(d wire.Disk) bool {
	if d.Transport != "usb" {
		return false
	}
	name := strings.ToLower(d.Vendor + " " + d.Model + " ")
	for _, w := range bmcWords {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// usbSerial is the serial number of the USB device that the disk is part of:
// the first directory above it which has one.
func usbSerial(sysfs string) string {
	for dir := sysfs; len(dir) > 1 && strings.Contains(dir, "/usb"); dir = filepath.Dir(dir) {
		if linkBase(dir, "subsystem") != "usb" {
			continue
		}
		if s := attr(dir, "serial"); s != "" {
			return s
		}
	}
	return ""
}
