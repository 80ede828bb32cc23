package conductor

import (
	"fmt"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// startTimeout is the key of a driver_info that says how many seconds a start
// of the node may take: for machines that stay in their self-test for longer
// than others (B-22). It is named like Ironic's setting for all nodes.
const startTimeout = "deploy_callback_timeout"

// Properties are the keys of a driver_info that are the same with all drivers.
var Properties = []bmc.Property{{
	Name: startTimeout,
	Help: "How many seconds a start of this machine may take before it gives a sign of life, from 60 to 86400; the appliance's setting for all machines when missing. Optional.",
}}

// startLimit is what a node says of its starts, 0 for nothing.
func startLimit(n *store.Node) (time.Duration, error) {
	f := bmc.Target{DriverInfo: n.DriverInfo}.Fields()
	d := time.Duration(f.Int(startTimeout, 0, 60, 86400)) * time.Second
	if err := f.Err(); err != nil {
		return 0, fmt.Errorf("driver_info: %w", err)
	}
	return d, nil
}

// startLimit is how long a start of the node may go without a sign of life.
// What is wrong in its driver_info was said before it was touched.
func (t *Task) startLimit() time.Duration {
	if d, err := startLimit(t.Node); err == nil && d > 0 {
		return d
	}
	return t.Limits().Boot
}

// within is how long the step may pause. A node that says how slow it starts
// has that much time to show itself, and as much again until its agent calls.
func (t *Task) within() time.Duration {
	d := t.step.Within(t.Limits())
	if own, err := startLimit(t.Node); err == nil && t.step.Name == "await-agent" {
		d = max(d, 2*own)
	}
	return d
}
