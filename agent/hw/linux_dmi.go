//go:build linux

package hw

import (
	"os"
	"slices"
	"strings"

	"github.com/u-root/u-root/pkg/smbios"

	"bessemer/agent/wire"
)

// A dmi is what the firmware says of the machine, in SMBIOS tables.
type dmi struct {
	dir  string // /sys/class/dmi/id
	info *smbios.Info
}

func (m *Linux) dmi() dmi {
	return dmi{dir: m.path("sys/class/dmi/id"), info: m.smbios()}
}

// smbios reads the tables, nil if there are none or they are broken.
func (m *Linux) smbios() (info *smbios.Info) {
	defer func() {
		if recover() != nil { // the tables are as good as the firmware's author
			info = nil
		}
	}()
	entry, err := os.ReadFile(m.path("sys/firmware/dmi/tables/smbios_entry_point"))
	if err != nil {
		return nil
	}
	table, err := os.ReadFile(m.path("sys/firmware/dmi/tables/DMI"))
	if err != nil {
		return nil
	}
	info, err = smbios.ParseInfo(entry, table)
	if err != nil {
		return nil
	}
	return info
}

// system is the machine's vendor, model, serial number and UUID: the kernel's
// reading of the tables, or our own for kernels without it.
func (d dmi) system() wire.SystemVendor {
	v := wire.SystemVendor{
		ProductName:  attr(d.dir, "product_name"),
		SerialNumber: attr(d.dir, "product_serial"),
		Manufacturer: attr(d.dir, "sys_vendor"),
		UUID:         strings.ToLower(attr(d.dir, "product_uuid")),
	}
	if v == (wire.SystemVendor{}) {
		v = d.systemTable()
	}
	for _, s := range []*string{&v.ProductName, &v.SerialNumber, &v.Manufacturer} {
		if placeholder(*s) {
			*s = ""
		}
	}
	return v
}

func (d dmi) systemTable() (v wire.SystemVendor) {
	if d.info == nil {
		return v
	}
	s, err := d.info.GetSystemInfo()
	if err != nil {
		return v
	}
	return wire.SystemVendor{
		ProductName: strings.TrimSpace(s.ProductName), SerialNumber: strings.TrimSpace(s.SerialNumber),
		Manufacturer: strings.TrimSpace(s.Manufacturer), UUID: strings.ToLower(s.UUID.String()),
	}
}

// placeholder tells what board makers leave in a field that they did not fill
// (quirk N-01 has the same for MACs).
func placeholder(s string) bool {
	return slices.Contains([]string{
		"to be filled by o.e.m.", "not specified", "default string", "system serial number", "system product name",
		"system manufacturer", "none", "n/a", "na", "unknown", "0123456789", "123456789", "0", "chassis serial number", "o.e.m.",
	}, strings.ToLower(strings.TrimSpace(s)))
}

// memoryMB sums the memory modules (SMBIOS type 17), 0 if the tables do not
// tell. A module whose size is not known counts as none (quirk N-09).
func (d dmi) memoryMB() (total int64) {
	if d.info == nil {
		return 0
	}
	defer func() {
		if recover() != nil {
			total = 0
		}
	}()
	devices, err := d.info.GetMemoryDevices()
	if err != nil {
		return 0
	}
	for _, dev := range devices {
		total += moduleMB(dev.Size, dev.ExtendedSize)
	}
	return total
}

// moduleMB is the size of a memory module (SMBIOS 3.6, section 7.18.1): 0 is
// an empty slot, 0xffff unknown, 0x7fff "see the extended size"; the topmost
// bit makes it KiB.
func moduleMB(size uint16, extended uint32) int64 {
	switch {
	case size == 0xffff:
		return 0
	case size == 0x7fff:
		return int64(extended & 0x7fffffff)
	case size&0x8000 != 0:
		return int64(size&0x7fff) >> 10
	}
	return int64(size)
}
