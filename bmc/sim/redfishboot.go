package sim

import (
	"slices"

	"bessemer/bmc"
)

// Redfish's words, in the order in which a client is told of them.
var (
	bootTargets = []string{"None", "Pxe", "Hdd", "Cd"}
	bootDevices = []bmc.BootDevice{"", bmc.PXE, bmc.Disk, bmc.CDROM}
	bootModes   = map[string]string{UEFI: "UEFI", BIOS: "Legacy"}
)

func bootDoc(m Machine) doc {
	b := m.Boot()
	enabled := "Disabled"
	switch {
	case b.Device != "" && b.Persistent:
		enabled = "Continuous"
	case b.Device != "":
		enabled = "Once"
	}
	var modes []string
	for _, mode := range m.Spec().Modes {
		modes = append(modes, bootModes[mode])
	}
	return doc{
		"BootSourceOverrideEnabled":                         enabled,
		"BootSourceOverrideEnabled@Redfish.AllowableValues": []string{"Disabled", "Once", "Continuous"},
		"BootSourceOverrideTarget":                          bootTargets[slices.Index(bootDevices, b.Device)],
		"BootSourceOverrideTarget@Redfish.AllowableValues":  bootTargets,
		"BootSourceOverrideMode":                            bootModes[m.NextBootMode()],
		"BootSourceOverrideMode@Redfish.AllowableValues":    modes,
	}
}

// newBoot is the override that a change of the Boot object asks for. What it
// does not mention stays, but a target without Enabled is for the next boot if
// there was no override.
func newBoot(m Machine, change doc) (bmc.Boot, error) {
	b := m.Boot()
	b.Mode = ""
	disabled := false
	for property, value := range change {
		word, _ := value.(string)
		switch property {
		case "BootSourceOverrideTarget":
			i := slices.Index(bootTargets, word)
			if i < 0 {
				return b, badValue(property, value)
			}
			b.Device = bootDevices[i]
		case "BootSourceOverrideEnabled":
			if !slices.Contains([]string{"Disabled", "Once", "Continuous"}, word) {
				return b, badValue(property, value)
			}
			disabled = word == "Disabled"
			b.Persistent = word == "Continuous"
		case "BootSourceOverrideMode":
			for _, mode := range m.Spec().Modes {
				if bootModes[mode] == word {
					b.Mode = mode
				}
			}
			if b.Mode == "" {
				return b, badValue(property, value)
			}
		default:
			return b, notWritable("Boot/" + property)
		}
	}
	if disabled {
		b.Device = ""
	}
	return b, nil
}

func (rf *Redfish) getBios(c call) (reply, error) {
	return reply{body: biosDoc(c.machine, "", c.machine.BootMode())}, nil
}

func (rf *Redfish) getBiosSettings(c call) (reply, error) {
	return reply{body: biosDoc(c.machine, "/Settings", c.machine.NextBootMode())}, nil
}

// biosDoc is the Bios resource, or the Settings that it takes over at the next
// start.
func biosDoc(m Machine, below, mode string) doc {
	path := "/Systems/" + m.Spec().Name + "/Bios"
	d := doc{
		"@odata.id": root + path + below, "@odata.type": "#Bios.v1_1_0.Bios",
		"Id": "Bios", "Name": "BIOS Settings",
		"Attributes": doc{"BootMode": biosModes[mode]},
	}
	if below == "" {
		d["@Redfish.Settings"] = doc{
			"@odata.type": "#Settings.v1_3_0.Settings", "SettingsObject": link(path + "/Settings"),
			"SupportedApplyTimes": []string{"OnReset"},
		}
	}
	return d
}

var biosModes = map[string]string{UEFI: "Uefi", BIOS: "Bios"}

func (rf *Redfish) patchBiosSettings(c call) (reply, error) {
	attributes, ok := c.body["Attributes"].(doc)
	if !ok {
		return reply{}, badValue("Attributes", c.body["Attributes"])
	}
	for name, value := range attributes {
		if name != "BootMode" {
			return reply{}, notWritable("Attributes/" + name)
		}
		mode := ""
		for m, word := range biosModes {
			if word == value {
				mode = m
			}
		}
		if mode == "" || c.machine.SetBootMode(mode) != nil {
			return reply{}, badValue("Attributes/"+name, value)
		}
	}
	return rf.getBiosSettings(c)
}
