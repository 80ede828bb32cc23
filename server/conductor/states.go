package conductor

import (
	"slices"

	"bessemer/store"
)

// A Kind says what a provision state is to a node.
type Kind string

// Kinds of states.
const (
	Stable Kind = "stable" // at rest
	Busy   Kind = "busy"   // a run works on it
	Wait   Kind = "wait"   // a run waits for the node
	Hold   Kind = "hold"   // waits for an operator
	Fail   Kind = "fail"   // at rest after an error
)

// A Rule is one state of the machine: its kind, the target that goes with it,
// and what each event leads to.
type Rule struct {
	State  store.ProvisionState
	Kind   Kind
	Target store.ProvisionState // default target_provision_state, "" for none
	Next   map[string]store.ProvisionState
}

// Machine is Ironic's provision state machine, complete: 30 states, 93
// transitions. It says what a request may do; how an unstable state comes to
// its end is the business of the workflows.
var Machine = []Rule{
	{store.Enroll, Stable, "", on{"manage": store.Verifying}},
	{store.Verifying, Busy, store.Manageable, on{"done": store.Manageable, "fail": store.Enroll}},
	{store.Manageable, Stable, "", on{"provide": store.Cleaning, "clean": store.Cleaning, "inspect": store.Inspecting, "adopt": store.Adopting}},
	{store.Inspecting, Busy, store.Manageable, on{"done": store.Manageable, "fail": store.InspectFailed, "wait": store.InspectWait}},
	{store.InspectWait, Wait, store.Manageable, on{"done": store.Manageable, "fail": store.InspectFailed, "abort": store.InspectFailed, "resume": store.Inspecting}},
	{store.InspectFailed, Fail, store.Manageable, on{"manage": store.Manageable, "inspect": store.Inspecting}},
	{store.Cleaning, Busy, store.Available, on{"done": store.Available, "fail": store.CleanFailed, "wait": store.CleanWait, "hold": store.CleanHold, "manage": store.Manageable}},
	{store.CleanWait, Wait, store.Available, on{"fail": store.CleanFailed, "abort": store.CleanFailed, "hold": store.CleanHold, "resume": store.Cleaning}},
	{store.CleanHold, Hold, store.Available, on{"abort": store.CleanFailed, "unhold": store.CleanWait}},
	{store.CleanFailed, Fail, store.Available, on{"manage": store.Manageable}},
	{store.Available, Stable, "", on{"deploy": store.Deploying, "manage": store.Manageable}},
	{store.Deploying, Busy, store.Active, on{"fail": store.DeployFailed, "wait": store.DeployWait, "hold": store.DeployHold, "done": store.Active}},
	{store.DeployWait, Wait, store.Active, on{"hold": store.DeployHold, "resume": store.Deploying, "fail": store.DeployFailed, "abort": store.DeployFailed, "delete": store.Deleting}},
	{store.DeployHold, Hold, store.Active, on{"unhold": store.DeployWait, "abort": store.DeployFailed}},
	{store.DeployFailed, Fail, store.Active, on{"rebuild": store.Deploying, "deploy": store.Deploying, "delete": store.Deleting}},
	{store.Active, Stable, "", on{"rebuild": store.Deploying, "delete": store.Deleting, "rescue": store.Rescuing, "service": store.Servicing}},
	{store.Servicing, Busy, store.Active, on{"done": store.Active, "fail": store.ServiceFailed, "wait": store.ServiceWait, "hold": store.ServiceHold}},
	{store.ServiceWait, Wait, store.Active, on{"hold": store.ServiceHold, "resume": store.Servicing, "fail": store.ServiceFailed, "abort": store.ServiceFailed, "delete": store.Deleting}},
	{store.ServiceHold, Hold, store.Active, on{"service": store.Servicing, "unhold": store.ServiceWait, "fail": store.ServiceFailed, "abort": store.ServiceFailed}},
	{store.ServiceFailed, Fail, store.Active, on{"service": store.Servicing, "rescue": store.Rescuing, "wait": store.ServiceWait, "hold": store.ServiceHold, "delete": store.Deleting, "abort": store.Active}},
	{store.Rescuing, Busy, store.Rescue, on{"done": store.Rescue, "wait": store.RescueWait, "fail": store.RescueFailed}},
	{store.RescueWait, Wait, store.Rescue, on{"resume": store.Rescuing, "fail": store.RescueFailed, "abort": store.RescueFailed, "delete": store.Deleting}},
	{store.Rescue, Stable, "", on{"rescue": store.Rescuing, "delete": store.Deleting, "unrescue": store.Unrescuing}},
	{store.RescueFailed, Fail, store.Rescue, on{"rescue": store.Rescuing, "unrescue": store.Unrescuing, "delete": store.Deleting}},
	{store.Unrescuing, Busy, store.Active, on{"done": store.Active, "fail": store.UnrescueFailed}},
	{store.UnrescueFailed, Fail, store.Active, on{"rescue": store.Rescuing, "unrescue": store.Unrescuing, "delete": store.Deleting}},
	{store.Adopting, Busy, store.Active, on{"done": store.Active, "fail": store.AdoptFailed}},
	{store.AdoptFailed, Fail, store.Active, on{"adopt": store.Adopting, "manage": store.Manageable}},
	{store.Deleting, Busy, store.Available, on{"fail": store.Error, "clean": store.Cleaning}},
	{store.Error, Stable, "", on{"rebuild": store.Deploying, "delete": store.Deleting}},
}

type on = map[string]store.ProvisionState

// RuleOf returns the rule of a state; the zero Rule for one that Ironic does
// not know.
func RuleOf(s store.ProvisionState) Rule {
	if i := slices.IndexFunc(Machine, func(r Rule) bool { return r.State == s }); i >= 0 {
		return Machine[i]
	}
	return Rule{}
}

// events are what the verbs of PUT .../states/provision mean to the machine;
// a verb that is not here is an event of the same name.
var events = map[string]string{
	"active": "deploy", "deploy": "deploy", "deleted": "delete", "undeploy": "delete",
}

// Verbs are the verbs that clients may use, in Ironic's words.
var Verbs = []string{
	"active", "deploy", "rebuild", "deleted", "undeploy", "manage", "provide", "inspect", "clean", "adopt", "service",
	"rescue", "unrescue", "abort", "unhold",
}

// laterVerbs are verbs that the machine has and this release does not carry
// out yet.
var laterVerbs = []string{"inspect", "adopt", "service", "rescue", "unrescue", "unhold"}

// NextState returns the state that a verb leads to from a state, or false if
// Ironic does not allow it there.
func NextState(s store.ProvisionState, verb string) (store.ProvisionState, bool) {
	event := verb
	if e, ok := events[verb]; ok {
		event = e
	}
	rule := RuleOf(s)
	next, ok := rule.Next[event]
	// A busy state takes events of its run only: "clean" ends deleting.
	return next, ok && rule.Kind != Busy && slices.Contains(Verbs, verb)
}

// UpdateAllowed reports whether a node in state s may be changed by PATCH:
// the stable states, and those that Ironic lists beside them.
func UpdateAllowed(s store.ProvisionState) bool {
	return RuleOf(s).Kind == Stable || slices.Contains([]store.ProvisionState{
		store.DeployFailed, store.Inspecting, store.InspectFailed, store.InspectWait, store.CleanFailed, store.Error,
		store.Verifying, store.AdoptFailed, store.RescueFailed, store.UnrescueFailed, store.ServiceHold, store.ServiceFailed,
	}, s)
}

// DeleteAllowed reports whether a node in state s may be deleted without
// being in maintenance.
func DeleteAllowed(s store.ProvisionState) bool {
	return slices.Contains([]store.ProvisionState{store.Manageable, store.Enroll, store.AdoptFailed, store.Available}, s)
}

// LookupAllowed reports whether a ramdisk on a node in state s may look
// itself up.
func LookupAllowed(s store.ProvisionState) bool {
	return slices.Contains([]store.ProvisionState{
		store.Deploying, store.DeployWait, store.Cleaning, store.CleanWait, store.Inspecting, store.InspectWait,
		store.Rescuing, store.RescueWait, store.ServiceWait,
	}, s)
}
