package ipmi_test

import (
	"testing"
	"time"

	"bessemer/bmc"
	simipmi "bessemer/bmc/sim/ipmi"
	"bessemer/store"
	"bessemer/store/storetest"
)

// A machine that its operating system turned off, and that does not turn on
// before its power was cut (B-12), is started all the same.
func TestCycle(t *testing.T) {
	t.Parallel()
	r := newRig(t, simipmi.Options{})
	d := open(t, r.port)
	types := bmc.Types{"x": {Open: func(bmc.Target) (bmc.Driver, error) { return d, nil }}}
	pool := bmc.NewPool(types, &storetest.Recorder{}, bmc.PoolOptions{PowerWait: 500 * time.Millisecond, PollMin: 20 * time.Millisecond})
	defer pool.Close()
	c, err := pool.Client(&store.Node{UUID: "n", Driver: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PowerOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.machine.Power(t.Context(), bmc.SoftOff); err != nil {
		t.Fatal(err)
	}
	r.Flaws.Turn(true, "B-12")
	if err := d.Power(t.Context(), bmc.On); err != nil || r.machine.PowerState() != store.PowerOff {
		t.Errorf("power on: %v, and the machine is %q", err, r.machine.PowerState())
	}
	if err := c.PowerOn(t.Context()); err != nil || r.machine.PowerState() != store.PowerOn {
		t.Errorf("power on with a cycle: %v, and the machine is %q", err, r.machine.PowerState())
	}
}
