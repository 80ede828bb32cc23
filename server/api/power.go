package api

import (
	"net/http"
	"slices"
	"time"

	"bessemer/store"
)

var powerTargets = []store.PowerState{store.PowerOn, store.PowerOff, store.Rebooting, store.SoftPowerOff, store.SoftReboot}

func setPower(c *call) error {
	var body struct {
		Target  store.PowerState `json:"target"`
		Timeout *int             `json:"timeout"`
	}
	if err := c.decode(&body); err != nil {
		return err
	}
	n, err := c.node()
	if err != nil {
		return err
	}
	soft := body.Target == store.SoftPowerOff || body.Target == store.SoftReboot
	if (soft || body.Timeout != nil) && c.v < 27 {
		return notAcceptable("soft power actions and timeout", 27)
	}
	if body.Timeout != nil && (*body.Timeout < 1 || *body.Timeout > 24*3600) {
		return invalid("timeout has to be a positive number of seconds, a day at most")
	}
	if !slices.Contains(powerTargets, body.Target) {
		return notInState(string(body.Target), n.UUID, string(n.PowerState))
	}
	if n.ProvisionState == store.Cleaning || n.ProvisionState == store.CleanWait {
		return notInState(string(body.Target), n.UUID, string(n.ProvisionState))
	}
	var timeout time.Duration
	if body.Timeout != nil {
		timeout = time.Duration(*body.Timeout) * time.Second
	}
	ctx, cancel := c.lasting(2 * time.Minute)
	defer cancel()
	if err := c.api.conductor.SetPower(ctx, n.UUID, body.Target, timeout); err != nil {
		return err
	}
	return c.accepted("/nodes/" + c.path("node") + "/states")
}

// notInState is Ironic's refusal of an action that a node's state does not
// allow.
func notInState(action, node, state string) error {
	return refuse(http.StatusBadRequest, "The requested action %q can not be performed on node %q while it is in state %q.", printable(action), node, state)
}
