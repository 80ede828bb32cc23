package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// resetTypes maps Redfish's words to the actions that they stand for. A cycle
// is off, then on.
var resetTypes = map[string][]bmc.PowerAction{
	"On":               {bmc.On},
	"ForceOn":          {bmc.On},
	"ForceOff":         {bmc.ForceOff},
	"GracefulShutdown": {bmc.SoftOff},
	"GracefulRestart":  {Restart},
	"ForceRestart":     {bmc.Reset},
	"PowerCycle":       {bmc.ForceOff, bmc.On},
}

func allResetTypes() []string {
	return []string{"On", "ForceOff", "ForceOn", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PowerCycle"}
}

func (rf *Redfish) getSystem(c call) (reply, error) {
	s := c.machine.Spec()
	path := "/Systems/" + s.Name
	return reply{body: doc{
		"@odata.id": root + path, "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem",
		"Id": s.Name, "Name": s.Name, "SystemType": "Physical", "UUID": s.UUID,
		"Manufacturer": s.Manufacturer, "Model": s.Model, "SerialNumber": s.Serial,
		"PowerState": powerState(c.machine), "Status": healthy(), "BiosVersion": "1.0",
		"ProcessorSummary": doc{"Count": max(s.CPUs, 1), "Status": healthy()},
		"MemorySummary":    doc{"TotalSystemMemoryGiB": float64(s.MemoryMiB) / 1024, "Status": healthy()},
		"Boot":             bootDoc(c.machine),
		"Bios":             link(path + "/Bios"), "EthernetInterfaces": link(path + "/EthernetInterfaces"), "Storage": link(path + "/Storage"),
		"Links": doc{"Chassis": []doc{link("/Chassis/" + s.Name)}, "ManagedBy": []doc{link("/Managers/" + s.Name)}},
		"Actions": doc{"#ComputerSystem.Reset": doc{
			"target":                            root + path + "/Actions/ComputerSystem.Reset",
			"ResetType@Redfish.AllowableValues": rf.opts.ResetTypes,
		}},
	}}, nil
}

// powerState is null while it changes, as with controllers that do not know
// the transitional values (quirk B-21).
func powerState(m Machine) any {
	switch m.PowerState() {
	case store.PowerOn:
		return "On"
	case store.PowerOff:
		return "Off"
	}
	return nil
}

func (rf *Redfish) patchSystem(c call) (reply, error) {
	for property := range c.body {
		if property != "Boot" {
			return reply{}, notWritable(property)
		}
	}
	change, ok := c.body["Boot"].(doc)
	if !ok {
		return reply{}, badValue("Boot", c.body["Boot"])
	}
	b, err := newBoot(c.machine, change)
	if err != nil {
		return reply{}, err
	}
	if err := c.machine.SetBoot(b); err != nil {
		return reply{}, badValue("Boot", err)
	}
	return rf.getSystem(c)
}

func (rf *Redfish) postReset(c call) (reply, error) {
	value, given := c.body["ResetType"]
	if !given {
		return reply{}, &fault{
			status: 400, message: "ActionParameterMissing", args: []string{"ComputerSystem.Reset", "ResetType"},
			text: "The action ComputerSystem.Reset requires the parameter ResetType.",
		}
	}
	name, _ := value.(string)
	if !slices.Contains(rf.opts.ResetTypes, name) {
		return reply{}, badValue("ResetType", value)
	}
	// What has begun is finished even when the client goes away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 2*time.Minute)
	defer cancel()
	for _, a := range resetTypes[name] {
		err := c.machine.Power(ctx, a)
		if errors.Is(err, ErrOff) {
			return reply{}, &fault{
				status: 409, message: "ActionNotSupported", args: []string{"ComputerSystem.Reset"},
				text: "The reset type " + name + " is not possible while the system is off.",
			}
		}
		if err != nil {
			return reply{}, err
		}
	}
	return reply{}, nil
}
