package sim

import (
	"fmt"
	"slices"
	"strings"

	"bessemer/bmc"
)

// A bootOption is an entry of the firmware's boot manager.
type bootOption struct {
	id, name, path string
	device         bmc.BootDevice
}

// bootOptions lists the entries: the disks, then the network cards.
func (c call) bootOptions() []bootOption {
	s := c.machine.Spec()
	var options []bootOption
	add := func(name, path string, device bmc.BootDevice) {
		options = append(options, bootOption{fmt.Sprintf("Boot%04X", len(options)+1), name, path, device})
	}
	for i, d := range s.Disks {
		add("Hard Disk "+d.Name, fmt.Sprintf("PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x%X,0xFFFF,0x0)", i), bmc.Disk)
	}
	for i, n := range s.NICs {
		mac := strings.ToUpper(strings.ReplaceAll(n.MAC, ":", ""))
		add(fmt.Sprintf("PXE IPv4 %s", nicID(i)), fmt.Sprintf("PciRoot(0x0)/Pci(0x%X,0x0)/MAC(%s,0x1)/IPv4(0.0.0.0)", i+2, mac), bmc.PXE)
	}
	return options
}

// deviceOf is what an entry's path boots from, "" for an unknown path.
func (c call) deviceOf(path string) bmc.BootDevice {
	for _, o := range c.bootOptions() {
		if o.path == path {
			return o.device
		}
	}
	return ""
}

// bootOrder is the order of the entries, of which some may have been lost
// (B-17).
func (c call) bootOrder() []string {
	ids := []string{}
	for _, o := range c.bootOptions() {
		if o.device != bmc.Disk || !c.ctl.diskLost() {
			ids = append(ids, o.id)
		}
	}
	return ids
}

// setBootOrder takes an order of entries; all must be there.
func (c call) setBootOrder(value any) error {
	list, _ := value.([]any)
	var known, given []string
	for _, o := range c.bootOptions() {
		known = append(known, o.id)
	}
	for _, v := range list {
		id, _ := v.(string)
		given = append(given, id)
	}
	slices.Sort(given)
	if !slices.Equal(known, given) {
		return badValue("Boot/BootOrder", value)
	}
	c.ctl.override(c.ctl.path(), false)
	return nil
}

// override notes the path that an override names, and whether setting it has
// cost the disk its place in the boot order.
func (c *Controller) override(path string, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulse.path, c.pulse.named, c.pulse.lost = path, true, lost
}

func (c *Controller) path() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pulse.path
}

func (c *Controller) diskLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pulse.lost
}

func (rf *Redfish) getBootOptions(c call) (reply, error) {
	var ids []string
	for _, o := range c.bootOptions() {
		ids = append(ids, o.id)
	}
	return collection(c.systemPath()+"/BootOptions", "BootOptionCollection.BootOptionCollection", "Boot Options", ids), nil
}

func (rf *Redfish) getBootOption(c call) (reply, error) {
	for _, o := range c.bootOptions() {
		if o.id == c.PathValue("option") {
			return reply{body: doc{
				"@odata.id": root + c.systemPath() + "/BootOptions/" + o.id, "@odata.type": "#BootOption.v1_0_4.BootOption",
				"Id": o.id, "Name": o.name, "BootOptionReference": o.id, "DisplayName": o.name, "UefiDevicePath": o.path,
				"BootOptionEnabled": true,
			}}, nil
		}
	}
	return reply{}, missing(c.URL.Path)
}
