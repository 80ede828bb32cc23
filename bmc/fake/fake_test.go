package fake_test

import (
	"context"
	"errors"
	"testing"

	"bessemer/bmc"
	"bessemer/bmc/bmctest"
	"bessemer/bmc/fake"
	"bessemer/store"
)

func TestSuite(t *testing.T) {
	bmctest.Suite(t, func(t *testing.T) bmctest.Rig {
		d := fake.New()
		return bmctest.Rig{
			Driver: d,
			Silent: func() bmc.Driver {
				d.Script(fake.HangAt(fake.Power, 0))
				return d
			},
		}
	})
}

func TestMachineOutlivesItsDriver(t *testing.T) {
	kind := fake.Type()
	open := func(node string, last store.PowerState) bmc.Driver {
		d, err := kind.Open(bmc.Target{Node: node, LastPower: last})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open("a", "")
	if err := d.Power(t.Context(), bmc.On); err != nil {
		t.Fatal(err)
	}
	d.Close()
	for _, tt := range []struct {
		node       string
		last, want store.PowerState
	}{
		{"a", store.PowerOff, store.PowerOn},
		{"b", store.PowerOn, store.PowerOn},
		{"c", store.PowerError, store.PowerOff},
	} {
		if got, err := open(tt.node, tt.last).PowerState(t.Context()); err != nil || got != tt.want {
			t.Errorf("node %s: got %q, %v, want %q", tt.node, got, err, tt.want)
		}
	}
}

func TestOnceIsForOneBoot(t *testing.T) {
	d := fake.New()
	ctx := t.Context()
	for _, persistent := range []bool{false, true} {
		if err := errors.Join(d.SetBoot(ctx, bmc.Boot{Device: bmc.PXE, Persistent: persistent}), d.Power(ctx, bmc.Reset)); err != nil {
			t.Fatal(err)
		}
		if b, _ := d.Boot(ctx); (b.Device == bmc.PXE) != persistent {
			t.Errorf("after a boot with persistent=%v: %s", persistent, b)
		}
	}
}

func TestFailAtCounts(t *testing.T) {
	d := fake.New()
	want := errors.New("broken")
	d.Script(fake.FailAt(fake.PowerState, 2, want))
	for n := 1; n <= 3; n++ {
		if _, err := d.PowerState(context.Background()); errors.Is(err, want) != (n == 2) {
			t.Errorf("call %d: got %v", n, err)
		}
	}
}
