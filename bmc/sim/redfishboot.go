package sim

import (
	"fmt"
	"slices"

	"bessemer/bmc"
)

// Redfish's words, in the order in which a client is told of them.
var (
	bootTargets = []string{"None", "Pxe", "Hdd", "Cd", "UefiTarget"}
	bootDevices = []bmc.BootDevice{"", bmc.PXE, bmc.Disk, bmc.CDROM}
	bootModes   = map[string]string{UEFI: "UEFI", BIOS: "Legacy"}
	bootEnabled = []string{"Disabled", "Once", "Continuous"}
)

// targets are the words of this controller: some call a virtual CD UsbCd
// (V-09).
func (c call) targets() []string {
	if !c.on("V-09") {
		return bootTargets
	}
	words := slices.Clone(bootTargets)
	words[3] = "UsbCd"
	return words
}

// bootDoc is the Boot object of a system, or of its settings resource. Where
// there is one, the system's own shows what its last start used (B-06).
func (c call) bootDoc(settings bool) doc {
	b := c.machine.Boot()
	if c.on("B-06") && !settings {
		b = bmc.Boot{}
	}
	d := doc{
		"BootSourceOverrideEnabled":                         bootEnabled[0],
		"BootSourceOverrideEnabled@Redfish.AllowableValues": bootEnabled,
		"BootSourceOverrideTarget":                          c.targets()[slices.Index(bootDevices, b.Device)],
		"BootSourceOverrideTarget@Redfish.AllowableValues":  c.targets(),
		"UefiTargetBootSourceOverride":                      nil,
		"BootOptions":                                       link(c.systemPath() + "/BootOptions"),
		"BootOrder":                                         c.bootOrder(),
	}
	switch {
	case b.Device != "" && b.Persistent:
		d["BootSourceOverrideEnabled"] = bootEnabled[2]
	case b.Device != "":
		d["BootSourceOverrideEnabled"] = bootEnabled[1]
	}
	if path := c.ctl.path(); path != "" && b.Device != "" {
		d["BootSourceOverrideTarget"], d["UefiTargetBootSourceOverride"] = "UefiTarget", path
	}
	c.modeDoc(d)
	return d
}

// modeDoc adds the boot mode: that of the next start, or of the last one where
// a change is not seen before (B-14), or none (B-05).
func (c call) modeDoc(d doc) {
	if c.on("B-05") {
		return
	}
	mode := c.machine.NextBootMode()
	if c.on("B-14") {
		mode = c.machine.BootMode()
	}
	words := []string{}
	for _, m := range c.machine.Spec().Modes {
		words = append(words, bootModes[m])
	}
	d["BootSourceOverrideMode"] = bootModes[mode]
	d["BootSourceOverrideMode@Redfish.AllowableValues"] = words
}

func (rf *Redfish) getSettings(c call) (reply, error) {
	if !c.on("B-06") {
		return reply{}, missing(c.URL.Path)
	}
	return reply{body: doc{
		"@odata.id": root + c.systemPath() + "/SD", "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem",
		"Id": c.machine.Spec().Name, "Name": "FutureState", "Boot": c.bootDoc(true),
	}}, nil
}

func (rf *Redfish) patchSettings(c call) (reply, error) {
	if err := rf.patchBoot(c); err != nil {
		return reply{}, err
	}
	return rf.getSettings(c)
}

func (rf *Redfish) patchSystem(c call) (reply, error) {
	if c.on("B-06") {
		return reply{}, notWritable("Boot")
	}
	if err := rf.patchBoot(c); err != nil {
		return reply{}, err
	}
	return rf.getSystem(c)
}

func (rf *Redfish) patchBoot(c call) error {
	for property := range c.body {
		if property != "Boot" {
			return notWritable(property)
		}
	}
	change, ok := c.body["Boot"].(doc)
	if !ok {
		return badValue("Boot", c.body["Boot"])
	}
	if order, ok := change["BootOrder"]; ok && len(change) == 1 {
		return c.setBootOrder(order)
	}
	b, path, err := c.newBoot(change)
	if err != nil {
		return err
	}
	if err := c.machine.SetBoot(b); err != nil {
		return badValue("Boot", err)
	}
	c.ctl.override(path, c.on("B-17"))
	return nil
}

// newBoot is the override that a change of the Boot object asks for. What it
// does not mention stays, but a target without Enabled is for the next boot if
// there was no override.
func (c call) newBoot(change doc) (b bmc.Boot, path string, err error) {
	if err := c.particularBoot(change); err != nil {
		return b, "", err
	}
	b, path = c.machine.Boot(), c.ctl.path()
	b.Mode = ""
	target, _ := change["BootSourceOverrideTarget"].(string)
	disabled := false
	for property, value := range change {
		word, _ := value.(string)
		switch property {
		case "BootSourceOverrideTarget":
			if target == "UefiTarget" {
				break
			}
			i := slices.Index(c.targets(), word)
			if i < 0 {
				return b, "", badValue(property, value)
			}
			b.Device, path = bootDevices[i], ""
		case "UefiTargetBootSourceOverride":
			path = word
		case "BootSourceOverrideEnabled":
			if !slices.Contains(bootEnabled, word) {
				return b, "", badValue(property, value)
			}
			disabled = word == "Disabled"
			b.Persistent = word == "Continuous"
		case "BootSourceOverrideMode":
			if b.Mode = c.mode(word); b.Mode == "" {
				return b, "", badValue(property, value)
			}
		default:
			return b, "", notWritable("Boot/" + property)
		}
	}
	if target == "UefiTarget" && !disabled {
		if b.Device = c.deviceOf(path); b.Device == "" {
			return b, "", badValue("UefiTargetBootSourceOverride", path)
		}
	} else if target != "" {
		path = ""
	}
	if _, ok := change["BootSourceOverrideEnabled"]; !ok && c.on("B-02") {
		b.Persistent = false
	}
	if disabled {
		b.Device, path = "", ""
	}
	return b, path, nil
}

func (c call) mode(word string) string {
	for _, m := range c.machine.Spec().Modes {
		if bootModes[m] == word {
			return m
		}
	}
	return ""
}

// particularBoot is the refusal of a Boot object that others take.
func (c call) particularBoot(change doc) error {
	for _, property := range []string{"BootSourceOverrideEnabled", "BootSourceOverrideTarget", "BootSourceOverrideMode"} {
		value, given := change[property]
		switch {
		case property == "BootSourceOverrideMode" && c.on("B-05"):
			if given {
				return notWritable("Boot/" + property)
			}
		case c.on("B-03") && value == nil:
			return &fault{status: 400, message: "PropertyMissing", args: []string{property}, text: fmt.Sprintf("The property %s is required and missing.", property)}
		case c.on("B-04") && value == "Continuous", c.on("B-07") && value == "None":
			return badValue(property, value)
		}
	}
	return nil
}
