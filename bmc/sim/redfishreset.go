package sim

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
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

// The reset types in the order in which they are told: all, and those of a
// controller that has no restart (B-10).
var (
	allResetTypes = []string{"On", "ForceOff", "ForceOn", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PowerCycle"}
	fewResetTypes = []string{"On", "ForceOff", "GracefulShutdown", "PowerCycle"}
)

func (c call) resetTypes() []string {
	switch {
	case c.on("B-10"):
		return fewResetTypes
	case c.rf.opts.ResetTypes != nil:
		return c.rf.opts.ResetTypes
	}
	return allResetTypes
}

// resetAction describes the action; where it allows little, in a resource of
// its own.
func (c call) resetAction() doc {
	action := doc{"target": root + c.systemPath() + "/Actions/ComputerSystem.Reset"}
	if c.on("B-10") {
		action["@Redfish.ActionInfo"] = root + c.systemPath() + "/ResetActionInfo"
	} else {
		action["ResetType@Redfish.AllowableValues"] = c.resetTypes()
	}
	return action
}

func (rf *Redfish) getResetInfo(c call) (reply, error) {
	return reply{body: doc{
		"@odata.id": root + c.systemPath() + "/ResetActionInfo", "@odata.type": "#ActionInfo.v1_1_2.ActionInfo",
		"Id": "ResetActionInfo", "Name": "Reset Action Info",
		"Parameters": []doc{{"Name": "ResetType", "Required": true, "DataType": "String", "AllowableValues": c.resetTypes()}},
	}}, nil
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
	if !slices.Contains(c.resetTypes(), name) {
		return reply{}, badValue("ResetType", value)
	}
	if err := c.already(name); err != nil {
		return reply{}, err
	}
	// What has begun is finished even when the client goes away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 2*time.Minute)
	defer cancel()
	for _, a := range resetTypes[name] {
		err := c.ctl.Power(ctx, a)
		if errors.Is(err, ErrOff) {
			return reply{}, impossible(name, "off")
		}
		if err != nil {
			return reply{}, err
		}
	}
	c.ctl.Log("OK", "%s asked for over Redfish", name)
	return reply{}, c.afterReset(name)
}

// already is the refusal of what is so already (B-09).
func (c call) already(name string) error {
	state := c.machine.PowerState()
	switch {
	case !c.on("B-09"):
	case state == store.PowerOn && strings.HasSuffix(name, "On"):
		return impossible(name, "on")
	case state == store.PowerOff && name == "ForceOff":
		return impossible(name, "off")
	}
	return nil
}

func impossible(name, state string) error {
	return &fault{
		status: 409, message: "ActionNotSupported", args: []string{"ComputerSystem.Reset"},
		text: "The reset type " + name + " is not possible while the system is " + state + ".",
	}
}

// afterReset is what a controller says of a reset that it has done: one that
// finds nothing to boot calls it an error (B-20), one takes a minute and a
// half to say anything.
func (c call) afterReset(name string) error {
	if c.on("R-15") && !pause(c.Context(), c.ctl.lasts(90*time.Second)) {
		panic(http.ErrAbortHandler)
	}
	if c.on("B-20") && strings.HasSuffix(name, "On") {
		return &fault{status: 500, message: "GeneralError", text: "The system was not powered on: no bootable device."}
	}
	return nil
}
