package sim

import (
	"context"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// pulse is what a controller remembers of its machine's power and starts.
type pulse struct {
	ran     bool      // since power was last cut: a start was asked for
	changed time.Time // of the last action that was passed on
	shown   store.PowerState
	read    time.Time // of shown
	ignored bool      // the last override for one start was (B-01)
	path    string    // the UEFI path that the override names (B-16)
	named   bool      // it could have named one: Redfish has paths, IPMI has none
	lost    bool      // the disk has no place in the boot order (B-17)
}

// Power does a power action on the machine, as far as the controller and the
// firmware go along. Every protocol's power actions go through it:
//
//   - B-11: the operating system does not react to being asked to shut down;
//   - B-12: a machine that was not turned off by the controller does not turn
//     on before the controller has turned it off;
//   - B-13: a reset is accepted, and does nothing.
func (c *Controller) Power(ctx context.Context, a bmc.PowerAction) error {
	on := c.Machine.PowerState() == store.PowerOn
	switch {
	case on && (a == bmc.SoftOff || a == Restart) && c.Flaws.On("B-11"),
		on && (a == bmc.Reset || a == Restart) && c.Flaws.On("B-13"),
		a == bmc.On && !on && c.Flaws.On("B-12") && c.hasRun():
		return nil
	}
	if err := c.Machine.Power(ctx, a); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulse.changed = time.Now()
	c.pulse.ran = a != bmc.ForceOff && (c.pulse.ran || a != bmc.SoftOff)
	return nil
}

func (c *Controller) hasRun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pulse.ran
}

// PowerState is the machine's power state as the controller shows it: read
// every three seconds only (B-08), else now.
func (c *Controller) PowerState() store.PowerState {
	if !c.Flaws.On("B-08") {
		return c.Machine.PowerState()
	}
	now := c.Machine.PowerState()
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.pulse.read) >= c.lasts(3*time.Second) {
		c.pulse.read, c.pulse.shown = time.Now(), now
	}
	return c.pulse.shown
}

// Heeds returns what the firmware makes of the override of a start of the
// machine, and tells the controller that the machine starts. The machine may
// hold its own lock.
//
//   - B-01: every other override for one boot is not heeded;
//   - B-16: in UEFI mode, one for the network by Redfish is heeded only if it
//     names the network card's path;
//   - B-17: without an override, the network is first when the disk has lost
//     its place.
func (c *Controller) Heeds(b bmc.Boot) bmc.Boot {
	c.Started()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulse.ran = true
	path, named := c.pulse.path, c.pulse.named
	none := bmc.Boot{Mode: b.Mode}
	if c.pulse.lost {
		none.Device = bmc.PXE
	}
	if b.Device == "" || b.Persistent {
		if b.Device == "" {
			return none
		}
		return b
	}
	c.pulse.path, c.pulse.named = "", false
	if c.Flaws.On("B-01") {
		if c.pulse.ignored = !c.pulse.ignored; c.pulse.ignored {
			return none
		}
	}
	if c.Flaws.On("B-16") && b.Device == bmc.PXE && b.Mode == UEFI && path == "" && named {
		return none
	}
	return b
}

// lasts is how long something of the controller's takes that should take d.
func (c *Controller) lasts(d time.Duration) time.Duration {
	if c.Pace == 0 {
		return d
	}
	return time.Duration(float64(d) * c.Pace)
}
