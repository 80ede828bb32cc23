package ipmi_test

import (
	"errors"
	"strings"
	"testing"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
	simipmi "bessemer/bmc/sim/ipmi"
	"bessemer/store"
)

var quirks = map[flaw.ID]struct {
	o       simipmi.Options
	changes []any
	check   func(*testing.T, *rig, bmc.Driver)
}{
	// The mode stays UEFI, whatever is set and cleared.
	"I-01": {check: func(t *testing.T, r *rig, d bmc.Driver) {
		for _, b := range []bmc.Boot{{Device: bmc.PXE, Mode: sim.UEFI}, {Device: bmc.Disk, Persistent: true}, {}} {
			must(t, d.SetBoot(t.Context(), b))
			must(t, d.Power(t.Context(), bmc.Reset))
		}
		r.booted(t, bmc.Boot{Device: bmc.PXE, Mode: sim.UEFI}, bmc.Boot{Device: bmc.Disk, Mode: sim.UEFI, Persistent: true}, bmc.Boot{Mode: sim.UEFI})
	}},
	"I-02": {check: func(t *testing.T, r *rig, d bmc.Driver) {
		must(t, d.SetBoot(t.Context(), bmc.Boot{Device: bmc.Disk, Mode: sim.UEFI, Persistent: true}))
		must(t, d.Power(t.Context(), bmc.On))
		r.booted(t, bmc.Boot{Device: bmc.Disk, Mode: sim.UEFI, Persistent: true})
	}},
	// What is lost after 60 seconds is in TestLateStart of bmc/ipmi.
	"I-03": {check: func(t *testing.T, r *rig, d bmc.Driver) {
		must(t, d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: sim.UEFI}))
		must(t, d.Power(t.Context(), bmc.On))
		r.booted(t, bmc.Boot{Device: bmc.PXE, Mode: sim.UEFI})
	}},
	"I-04": {check: func(t *testing.T, r *rig, d bmc.Driver) {
		must(t, d.Power(t.Context(), bmc.ForceOff))
	}},
	"I-05": {check: func(t *testing.T, r *rig, d bmc.Driver) {
		is(t, d, store.PowerOff)
	}},
	"I-06": {check: func(t *testing.T, r *rig, d bmc.Driver) {
		for range 3 {
			is(t, d, store.PowerOff)
		}
		must(t, d.Power(t.Context(), bmc.On))
	}},
	"I-07": {o: simipmi.Options{Password: "0123456789abcdef0123"}, changes: []any{"ipmi_password", "0123456789abcdef0123"}, check: func(t *testing.T, r *rig, d bmc.Driver) {
		is(t, d, store.PowerOff)
	}},
	"I-09": {check: func(t *testing.T, r *rig, d bmc.Driver) {
		must(t, d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: sim.UEFI}))
		must(t, d.Power(t.Context(), bmc.On))
	}},
	"I-11": {check: func(t *testing.T, r *rig, d bmc.Driver) {
		is(t, d, store.PowerOff)
	}},
	"I-12": {check: func(t *testing.T, r *rig, d bmc.Driver) {
		_, err := d.PowerState(t.Context())
		if !errors.Is(err, bmc.ErrUnreachable) || !strings.Contains(err.Error(), "ping (RMCP) is answered: IPMI over LAN is switched off") {
			t.Errorf("got %v, want that IPMI over LAN is switched off", err)
		}
	}},
}

// TestBootQuirks turns those on that a controller has by either protocol.
func TestBootQuirks(t *testing.T) {
	t.Parallel()
	disk := bmc.Boot{Device: bmc.Disk, Mode: sim.UEFI, Persistent: true}
	for id, check := range map[flaw.ID]func(*testing.T, *rig, bmc.Driver){
		"B-04": func(t *testing.T, r *rig, d bmc.Driver) {
			must(t, d.SetBoot(t.Context(), disk))
			for range 3 {
				must(t, d.Power(t.Context(), bmc.Reset))
			}
			once := bmc.Boot{Device: bmc.Disk, Mode: sim.UEFI}
			r.booted(t, once, once, once)
		},
		"B-09": func(t *testing.T, r *rig, d bmc.Driver) {
			for _, a := range []bmc.PowerAction{bmc.ForceOff, bmc.On, bmc.On, bmc.ForceOff, bmc.ForceOff} {
				must(t, d.Power(t.Context(), a))
			}
		},
		"B-20": func(t *testing.T, r *rig, d bmc.Driver) {
			must(t, d.SetBoot(t.Context(), disk))
			must(t, d.Power(t.Context(), bmc.On))
			r.booted(t, disk)
		},
	} {
		t.Run(string(id), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, simipmi.Options{})
			r.Flaws.Turn(true, id)
			check(t, r, r.open(t))
		})
	}
}

// TestQuirks turns each flag on, once before the driver comes and once while
// it has a session.
func TestQuirks(t *testing.T) {
	t.Parallel()
	for _, row := range flaw.Rows() {
		if !strings.HasPrefix(string(row.ID), "I-") || row.Status != flaw.Flag {
			continue
		}
		q, ok := quirks[row.ID]
		if !ok {
			t.Errorf("%s has a flag, but no test", row.ID)
		}
		for _, when := range []string{"before", "at run time"} {
			if row.ID == "I-12" && when != "before" {
				continue // is no other, and takes eight seconds
			}
			t.Run(string(row.ID)+" "+when, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, q.o)
				r.Pace = 0.1
				d := r.open(t, q.changes...)
				if when != "before" {
					is(t, d, store.PowerOff)
				}
				r.Flaws.Turn(true, row.ID)
				q.check(t, r, d)
			})
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func is(t *testing.T, d bmc.Driver, want store.PowerState) {
	t.Helper()
	if got, err := d.PowerState(t.Context()); err != nil || got != want {
		t.Errorf("got power state %q, %v, want %q", got, err, want)
	}
}

// booted checks what the machine has booted from, start by start.
func (r *rig) booted(t *testing.T, want ...bmc.Boot) {
	t.Helper()
	got := r.machine.Starts()
	if len(got) != len(want) {
		t.Fatalf("the machine was started %d times, want %d: %v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("start %d was from %s, want %s", i+1, got[i], want[i])
		}
	}
}
