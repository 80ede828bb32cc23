package sim

import (
	"time"

	"bessemer/store"
)

func (rf *Redfish) getSystem(c call) (reply, error) {
	if rf.orphaned(c) {
		return reply{}, missing(c.URL.Path)
	}
	s := c.machine.Spec()
	path := "/Systems/" + s.Name
	body := doc{
		"@odata.id": root + path, "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem",
		"Id": s.Name, "Name": s.Name, "SystemType": "Physical", "UUID": s.UUID,
		"Manufacturer": s.Manufacturer, "Model": s.Model, "SerialNumber": s.Serial,
		"PowerState": c.powerWord(), "Status": healthy(), "BiosVersion": c.version("BIOS"),
		"ProcessorSummary": doc{"Count": max(s.CPUs, 1), "Status": healthy()},
		"MemorySummary":    doc{"TotalSystemMemoryGiB": float64(s.MemoryMiB) / 1024, "Status": healthy()},
		"BootProgress":     doc{"LastState": c.progress()},
		"Boot":             c.bootDoc(false),
		"Links":            doc{"Chassis": []doc{link("/Chassis/" + s.Name)}, "ManagedBy": []doc{link("/Managers/" + s.Name)}},
		"Actions":          doc{"#ComputerSystem.Reset": c.resetAction()},
	}
	for _, name := range []string{"Bios", "SecureBoot", "EthernetInterfaces", "Storage", "Processors", "Memory", "LogServices", "VirtualMedia"} {
		body[name] = link(path + "/" + name)
	}
	c.distort(body)
	return reply{body: body}, nil
}

// distort makes of a system what some controllers make of it.
func (c call) distort(body doc) {
	if c.on("B-06") {
		body["@Redfish.Settings"] = doc{"@odata.type": "#Settings.v1_3_0.Settings", "SettingsObject": link(c.systemPath() + "/SD")}
	}
	if c.on("R-18") {
		delete(body["Links"].(doc), "ManagedBy")
	}
	if c.on("R-22") {
		body["Manufacturer"], body["SKU"] = "Dell Inc.", "SKU-"+c.machine.Spec().Serial
	}
	if c.on("R-21") {
		delete(body, "Storage")
	}
	if c.on("V-01") {
		delete(body, "VirtualMedia")
	}
	if c.on("N-05") {
		body["SerialNumber"], body["SKU"] = "CN-BOARD-1", c.machine.Spec().Serial
	}
}

func (c call) systemPath() string { return "/Systems/" + c.machine.Spec().Name }

// orphaned reports whether the system does not exist for the controller, as
// its collection was not read yet (B-18).
func (rf *Redfish) orphaned(c call) bool {
	rf.mu.Lock()
	defer rf.mu.Unlock()
	if !c.on("B-18") {
		rf.oddity.parent = false
		return false
	}
	return !rf.oddity.parent
}

// powerWord is null while the state changes, as with controllers that do not
// know the transitional values. Others know more of them than there are, and
// show them for a while after an action (B-21).
func (c call) powerWord() any {
	if c.on("B-21") {
		if word, ok := c.ctl.transition(); ok {
			return word
		}
	}
	switch c.ctl.PowerState() {
	case store.PowerOn:
		return "On"
	case store.PowerOff:
		return "Off"
	}
	return nil
}

// transition is the word for a machine between two states, in the second after
// a power action.
func (c *Controller) transition() (any, bool) {
	on := c.Machine.PowerState() == store.PowerOn
	c.mu.Lock()
	defer c.mu.Unlock()
	since, all := time.Since(c.pulse.changed), c.lasts(time.Second)
	if since >= all {
		return nil, false
	}
	words := []any{"PoweringOff", "Paused", nil, "PoweringOff"}
	if on {
		words = []any{"PoweringOn", "Paused", nil, "PoweringOn"}
	}
	return words[time.Duration(len(words))*since/all], true
}

// progress is how far the machine's start has got, as far as that is known.
func (c call) progress() string {
	if c.machine.PowerState() == store.PowerOn {
		return "OSBootStarted"
	}
	return "None"
}

// version is that of a component's firmware.
func (c call) version(id string) string {
	for _, f := range c.ctl.Inventory() {
		if f.ID == id {
			return f.Version
		}
	}
	return ""
}
