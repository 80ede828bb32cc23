package sim

import "maps"

func (rf *Redfish) getBios(c call) (reply, error) {
	now, _ := c.ctl.BIOS()
	now["BootMode"] = biosModes[c.machine.BootMode()]
	d := c.biosDoc("", now)
	d["@Redfish.Settings"] = doc{
		"@odata.type": "#Settings.v1_3_0.Settings", "SettingsObject": link(c.systemPath() + "/Bios/Settings"),
		"SupportedApplyTimes": []string{"OnReset"},
	}
	d["Actions"] = doc{"#Bios.ResetBios": doc{"target": root + c.systemPath() + "/Bios/Actions/Bios.ResetBios"}}
	return reply{body: d}, nil
}

func (rf *Redfish) getBiosSettings(c call) (reply, error) {
	now, pending := c.ctl.BIOS()
	maps.Copy(now, pending)
	now["BootMode"] = biosModes[c.machine.NextBootMode()]
	return reply{body: c.biosDoc("/Settings", now)}, nil
}

// biosDoc is the Bios resource, or the Settings that it takes over at the next
// start.
func (c call) biosDoc(below string, attributes doc) doc {
	return doc{
		"@odata.id": root + c.systemPath() + "/Bios" + below, "@odata.type": "#Bios.v1_1_0.Bios",
		"Id": "Bios", "Name": "BIOS Settings", "Attributes": attributes,
	}
}

var biosModes = map[string]string{UEFI: "Uefi", BIOS: "Bios"}

func (rf *Redfish) patchBiosSettings(c call) (reply, error) {
	attributes, ok := c.body["Attributes"].(doc)
	if !ok {
		return reply{}, badValue("Attributes", c.body["Attributes"])
	}
	attributes = maps.Clone(attributes)
	value, given := attributes["BootMode"]
	mode := ""
	for m, word := range biosModes {
		if word == value {
			mode = m
		}
	}
	delete(attributes, "BootMode")
	if given && mode == "" {
		return reply{}, badValue("Attributes/BootMode", value)
	}
	if err := c.ctl.SetBIOS(attributes); err != nil {
		return reply{}, &fault{status: 400, message: "PropertyNotWritable", text: err.Error()}
	}
	if given && c.machine.SetBootMode(mode) != nil {
		return reply{}, badValue("Attributes/BootMode", value)
	}
	return rf.getBiosSettings(c)
}

// postResetBios sets the attributes back to the factory's at the next start.
func (rf *Redfish) postResetBios(c call) (reply, error) {
	return reply{}, c.ctl.SetBIOS(NewController(c.machine, nil).bios)
}
