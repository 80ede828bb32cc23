package sim_test

import (
	"errors"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/bmctest"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
	"bessemer/store"
)

// Faults of a controller are borne where they pass, are told apart where they
// do not, and leave nothing behind when they are healed.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault string
		want  error // of a power-on, nil for success
	}{
		{"bmc-500:count=2", nil},
		{"bmc-500", errAny},
		{"bmc-503:count=2", nil},
		{"bmc-503:rate=0.3", nil},
		{"bmc-down:count=1", nil},
		{"bmc-down", bmc.ErrUnreachable},
		{"bmc-slow:delay=50ms", nil},
		{"bmc-sessions", nil},
		{"bmc-password", bmc.ErrCredentials},
		{"bmc-hang", bmc.ErrUnreachable},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			f, err := flaw.ParseFault(tt.fault)
			if err != nil {
				t.Fatal(err)
			}
			b.ctl.Flaws.Inject(f)
			err = b.client.PowerOn(t.Context())
			switch {
			case tt.want == nil && err != nil, tt.want != nil && err == nil:
				t.Errorf("got %v, want %v", err, tt.want)
			case tt.want != nil && tt.want != errAny && !errors.Is(err, tt.want):
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if b.ctl.Flaws.Hits(f.Kind) == 0 {
				t.Error("the fault has hit nothing")
			}
			b.ctl.Flaws.Heal()
			b.ok("power on", b.client.PowerOn(t.Context()))
			if b.m.PowerState() != store.PowerOn {
				t.Error("the machine is not on")
			}
		})
	}
}

var errAny = errors.New("any error")

// TestSessionsRunOut is the fault that hits logins: a session that there is
// already is not touched by it.
func TestSessionsRunOut(t *testing.T) {
	b := newBench(t)
	b.ok("power on", b.client.PowerOn(t.Context()))
	b.ctl.Flaws.Inject(flaw.Fault{Kind: flaw.BMCSessions})
	b.ok("power off", b.client.PowerOff(t.Context()))
	if n := b.ctl.Flaws.Hits(flaw.BMCSessions); n != 0 || b.rf.Sessions() != 1 {
		t.Errorf("%d logins were hit, %d sessions", n, b.rf.Sessions())
	}
}

// kitchenSink is a controller with all quirks that go together and that leave
// it able to do what the suite asks of every controller.
var kitchenSink = []flaw.ID{
	"B-02", "B-03", "B-06", "B-07", "B-09", "B-17", "B-18", "B-20", "B-21",
	"R-01", "R-03", "R-05", "R-07", "R-08", "R-10", "R-13", "R-14", "R-18", "R-22", "R-24", "V-01", "V-09", "N-01", "N-02",
}

func TestKitchenSink(t *testing.T) {
	t.Parallel()
	bmctest.Suite(t, func(t *testing.T) bmctest.Rig {
		r := rig(t, sim.RedfishOptions{
			User: "admin", Password: "right-4711",
			Controllers: func(m sim.Machine) *sim.Controller {
				c := sim.NewController(m, flaw.NewSet(1, kitchenSink...))
				c.Pace = 0.1
				return c
			},
		})
		return r
	})
}

// TestKeepsFewConnections is what lets an appliance hold thousands of
// controllers: a connection that is not used is closed soon.
func TestKeepsFewConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a connection is kept")
	}
	t.Parallel()
	b := newBench(t)
	b.ok("power on", b.client.PowerOn(t.Context()))
	for begun := time.Now(); b.conns() > 0; time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("%d connections are open", b.conns())
		}
	}
}
