package hardware

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bessemer/agent/wire"
	"bessemer/bmc/sim"
)

// device is a disk as it is reported, and its file; "" for none.
type device struct {
	wire.Disk
	path    string
	standby bool // a path that answers no command (K-07)
}

// disksOf names the disks as Linux does.
func disksOf(c Config) []device {
	var out []device
	seen := map[string]int{}
	for i, d := range c.Spec.Disks {
		w := wire.Disk{Model: d.Model, Size: d.Size, Serial: d.Serial, LogicalSectorSize: 512, PhysicalSectorSize: 512}
		if i < len(c.Profile.Disks) {
			p := c.Profile.Disks[i]
			w.Vendor, w.Rotational, w.PhysicalSectorSize = p.Vendor, p.Rotational, max(p.Physical, 512)
		}
		kind := kindOf(d.Bus)
		n := seen[kind]
		seen[kind]++
		w.Name = name(kind, n)
		switch d.Bus {
		case sim.NVMe:
			w.Transport, w.WWN = "nvme", "eui."+strings.TrimPrefix(wwn(d.Serial), "0x")
			w.ByPath = fmt.Sprintf("/dev/disk/by-path/pci-0000:%02x:00.0-nvme-1", 0x60+n)
		case EMMC:
			w.Transport = "mmc"
		case sim.VirtioBlk:
			w.Transport, w.ByPath = "virtio", fmt.Sprintf("/dev/disk/by-path/virtio-pci-0000:00:%02x.0", 4+n)
		default:
			w.Transport, w.WWN, w.HCTL = string(d.Bus), wwn(d.Serial), fmt.Sprintf("0:0:%d:0", n)
			w.WWNWithExtension = w.WWN
			w.ByPath = fmt.Sprintf("/dev/disk/by-path/pci-0000:00:17.0-ata-%d", n+1)
		}
		out = append(out, device{Disk: w, path: d.Path})
	}
	return out
}

func kindOf(b sim.Bus) string {
	switch b {
	case sim.NVMe, EMMC:
		return string(b)
	case sim.VirtioBlk:
		return "vd"
	}
	return "sd"
}

func name(kind string, n int) string {
	switch kind {
	case string(sim.NVMe):
		return fmt.Sprintf("/dev/nvme%dn1", n)
	case string(EMMC):
		return fmt.Sprintf("/dev/mmcblk%d", n)
	}
	return "/dev/" + kind + string(rune('a'+n))
}

// spare makes a disk that a quirk adds.
func (m *Machine) spare(name, serial string, size int64) device {
	d := device{Disk: wire.Disk{Name: name, Model: "Spare", Serial: serial, WWN: wwn(serial), Size: size, Transport: "sas", LogicalSectorSize: 512, PhysicalSectorSize: 512}}
	if len(m.disks) > 0 {
		d.path = filepath.Join(filepath.Dir(m.disks[0].path), serial+".raw")
	}
	return d
}

// Sizes that quirks give to disks.
const (
	size3TB  = 3_000_592_982_016
	sizeSLUN = 64 * mib
)

// lateness is how long after the start a late disk is seen (K-05).
const lateness = 3 * time.Second

// quirky are the disks that the machine has at this moment. The first of its
// own is the one that quirks are about.
func (m *Machine) quirky() []device {
	on := m.c.Flaws.On
	all := slices.Clone(m.disks)
	if len(all) == 0 {
		return nil
	}
	root := &all[0]
	if on("K-01") {
		root.Size += 3 * 4096
	}
	if on("K-03") {
		root.Size = max(root.Size, size3TB)
	}
	if on("K-17") {
		twin := m.spare("/dev/sdt", "twin", root.Size)
		all = append(all, twin)
		if m.c.Start%2 == 1 {
			slices.Reverse(all)
		}
	}
	if on("K-25") {
		all = append(all, m.spare("/dev/sdo", "old-drive", max(8*gib, m.disks[0].Size+gib)))
	}
	if on("K-09") {
		all = append(all, m.spare("/dev/sdl", "shared-lun", sizeSLUN))
	}
	if on("K-20") {
		all = m.renamed(all)
	}
	if on("K-07") {
		all = m.twoPaths(all)
	}
	if on("K-10") {
		all = append(all, notDisks...)
	}
	if on("V-14") {
		all = append(all, virtualMedia...)
	}
	if on("K-02") {
		for i := range all {
			all[i].LogicalSectorSize, all[i].PhysicalSectorSize = 4096, 4096
		}
	}
	if on("K-05") && m.c.IP.IsValid() && time.Since(m.began) < m.takes(lateness) {
		all = slices.DeleteFunc(all, func(d device) bool { return d.Serial == m.disks[0].Serial })
	}
	return all
}

// renamed gives the disks each other's names, other ones at each start, and
// adds one so that there are two; by-path links are not to be had (K-20).
func (m *Machine) renamed(all []device) []device {
	all = append(all, m.spare("/dev/sdn", "newcomer", 5*gib))
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
	}
	shift := 1 + int(m.c.Start%uint64(len(all)-1))
	for i := range all {
		all[i].Name, all[i].ByPath, all[i].HCTL = names[(i+shift)%len(names)], "", ""
	}
	return all
}

// twoPaths shows the root disk twice. The path with the name that comes first
// is on standby.
func (m *Machine) twoPaths(all []device) []device {
	i := slices.IndexFunc(all, func(d device) bool { return d.Serial == m.disks[0].Serial })
	if i < 0 {
		return all
	}
	active := all[i]
	active.Name = "/dev/sdx"
	if active.WWN == "" {
		active.WWN = wwn(active.Serial)
	}
	all[i].WWN, all[i].standby = active.WWN, true
	return append(all, active)
}

// notDisks are block devices on which nothing can be deployed (K-10).
var notDisks = []device{
	{Disk: wire.Disk{Name: "/dev/zram0", Size: 4 * gib}},
	{Disk: wire.Disk{Name: "/dev/fd0", Model: "Floppy", Removable: true}},
	{Disk: wire.Disk{Name: "/dev/sdr", Model: "Write-protected", Serial: "locked", Size: 4 * gib, ReadOnly: true, Transport: "usb"}},
	{Disk: wire.Disk{Name: "/dev/sdz", Model: "Card reader", Transport: "usb"}},
}

// virtualMedia are a management controller's drives (V-14).
var virtualMedia = []device{
	{Disk: wire.Disk{Name: "/dev/sr0", Vendor: "BMC", Model: "Virtual CD", ReadOnly: true, Removable: true, VirtualMedia: true, Transport: "usb"}},
	{Disk: wire.Disk{Name: "/dev/sdv", Vendor: "BMC", Model: "Virtual Floppy", Size: 0, ReadOnly: true, VirtualMedia: true, Transport: "usb"}},
}

func (m *Machine) find(name string) (device, bool) {
	for _, d := range m.quirky() {
		if d.Name == name {
			return d, true
		}
	}
	return device{}, false
}

// path implements hw.Fake's.
func (m *Machine) path(w wire.Disk) string {
	d, _ := m.find(w.Name)
	return d.path
}
