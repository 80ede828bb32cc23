//go:build linux

package hw

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// byPath names a disk by the way to it, as udev's path_id does:
// "pci-0000:00:1f.2-ata-1", "pci-0000:3b:00.0-scsi-0:2:0:0". It climbs from
// the device in /sys to the root; each bus adds a part. block is the disk's
// directory in /sys/block. "" where udev would give no name.
func byPath(block, sysfs string) string {
	var parts []string // nearest to the disk first
	supported := false // something that says how the bus is reached was found
	for dir := sysfs; len(dir) > 1; {
		part, next := pathPart(block, dir)
		if part != "" {
			parts = append([]string{part}, parts...)
		}
		switch linkBase(dir, "subsystem") {
		case "pci", "platform", "acpi", "xen":
			supported = true
		}
		dir = next
	}
	if !supported {
		return ""
	}
	return strings.Join(parts, "-")
}

var usbInterface = regexp.MustCompile(`^\d+-([\d.]+:[\d.]+)$`)

// pathPart returns what one directory adds to the name, and where to go on.
func pathPart(block, dir string) (part, next string) {
	name := filepath.Base(dir)
	switch bus := linkBase(dir, "subsystem"); bus {
	case "scsi":
		if hctl(name) != "" {
			return scsiPart(dir)
		}
	case "nvme":
		return "nvme-" + attr(block, "nsid"), skip(dir, bus)
	case "usb":
		if m := usbInterface.FindStringSubmatch(name); m != nil {
			return "usb-0:" + m[1], skip(dir, "usb")
		}
	case "pci", "platform", "acpi", "xen":
		return bus + "-" + name, skip(dir, bus)
	}
	return "", filepath.Dir(dir)
}

// skip climbs out of a bus: of bridges and hubs only the nearest device counts.
func skip(dir, bus string) string {
	for len(dir) > 1 {
		dir = filepath.Dir(dir)
		if linkBase(dir, "subsystem") != bus && deviceAbove(dir, bus) == "" {
			return dir
		}
	}
	return dir
}

// deviceAbove returns the next directory at or above dir that is a device of
// the bus, "" if there is none.
func deviceAbove(dir, bus string) string {
	for ; len(dir) > 1; dir = filepath.Dir(dir) {
		if linkBase(dir, "subsystem") == bus {
			return dir
		}
	}
	return ""
}

// scsiPart names a SCSI disk within its host.
func scsiPart(dir string) (part, next string) {
	host := above(dir, regexp.MustCompile(`^host\d+$`))
	if host == "" {
		return "", filepath.Dir(dir)
	}
	if ata := above(dir, regexp.MustCompile(`^ata\d+$`)); ata != "" {
		name := filepath.Base(ata)
		port := attr(ata, "ata_port", name, "port_no")
		if port == "" {
			port = strings.TrimPrefix(name, "ata")
		}
		return "ata-" + port, filepath.Dir(ata)
	}
	if end := above(dir, regexp.MustCompile(`^end_device-[\d:]+$`)); end != "" {
		return sasPart(dir, end), filepath.Dir(host)
	}
	if rport := above(dir, regexp.MustCompile(`^rport-[\d:-]+$`)); rport != "" {
		target := filepath.Dir(dir)
		return "fc-" + attr(target, "fc_transport", filepath.Base(target), "port_name") + "-" + unit(dir), filepath.Dir(host)
	}
	f := strings.Split(filepath.Base(dir), ":")
	return fmt.Sprintf("scsi-%d:%s:%s:%s", hostOffset(host), f[1], f[2], f[3]), filepath.Dir(host)
}

// sasPart names a disk behind a SAS HBA: by the phy it is plugged into, or by
// its address if several phys lead to it.
func sasPart(dir, end string) string {
	name, port := filepath.Base(end), filepath.Dir(end)
	device := filepath.Join(end, "sas_device", name)
	if attr(port, "sas_port", filepath.Base(port), "num_phys") != "1" {
		return "sas-" + attr(device, "sas_address") + "-" + unit(dir)
	}
	phy := "phy" + attr(device, "phy_identifier") + "-" + unit(dir)
	expander := filepath.Dir(port)
	if address := attr(expander, "sas_device", filepath.Base(expander), "sas_address"); address != "" {
		return "sas-exp" + address + "-" + phy
	}
	return "sas-" + phy
}

// unit is the logical unit as path_id writes it: large numbers in hex, with
// their 16-bit words swapped as the wire has them.
func unit(dir string) string {
	name := filepath.Base(dir)
	lun, _ := strconv.ParseUint(name[strings.LastIndexByte(name, ':')+1:], 10, 64)
	if lun < 256 {
		return fmt.Sprintf("lun-%d", lun)
	}
	return fmt.Sprintf("lun-0x%04x%04x00000000", lun&0xffff, lun>>16&0xffff)
}

// above returns the nearest directory above dir whose name matches.
func above(dir string, name *regexp.Regexp) string {
	for dir = filepath.Dir(dir); len(dir) > 1; dir = filepath.Dir(dir) {
		if name.MatchString(filepath.Base(dir)) {
			return dir
		}
	}
	return ""
}

// hostOffset is a host's place among those of its controller: the kernel
// counts hosts through the whole machine, in the order of drivers.
func hostOffset(host string) int {
	mine, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(host), "host"))
	lowest := mine
	entries, _ := os.ReadDir(filepath.Dir(host)) // it is one of them
	for _, e := range entries {
		if n, err := strconv.Atoi(strings.TrimPrefix(e.Name(), "host")); err == nil && strings.HasPrefix(e.Name(), "host") {
			lowest = min(lowest, n)
		}
	}
	return mine - lowest
}
