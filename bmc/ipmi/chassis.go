package ipmi

import (
	"context"
	"fmt"

	"bessemer/bmc"
	"bessemer/store"
)

// Actions of Chassis Control (section 28.3).
const (
	powerDown = 0
	powerUp   = 1
	hardReset = 3
	softOff   = 5
)

// PowerState implements [bmc.Driver].
func (d *driver) PowerState(ctx context.Context) (store.PowerState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	on, err := d.isOn(ctx)
	switch {
	case err != nil:
		return store.PowerError, err
	case on:
		return store.PowerOn, nil
	}
	return store.PowerOff, nil
}

func (d *driver) isOn(ctx context.Context) (bool, error) {
	answer, err := d.run(ctx, cmdChassisStatus)
	if err != nil {
		return false, err
	}
	if len(answer) < 1 {
		return false, fmt.Errorf("%s: %w", cmdChassisStatus.name, errMalformed)
	}
	return answer[0]&1 != 0, nil
}

// Power implements [bmc.Driver]. What is already so is not asked for: many
// controllers answer it with an error (I-04), and so do all to a reset of a
// machine that is off, which is power on.
func (d *driver) Power(ctx context.Context, a bmc.PowerAction) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	on, err := d.isOn(ctx)
	if err != nil {
		return err
	}
	action, ok := map[bmc.PowerAction]byte{bmc.On: powerUp, bmc.ForceOff: powerDown, bmc.SoftOff: softOff, bmc.Reset: hardReset}[a]
	switch {
	case !ok:
		return fmt.Errorf("power action %q: %w", a, bmc.ErrUnsupported)
	case on == (a == bmc.On) && a != bmc.Reset:
		return nil
	case a == bmc.Reset && !on:
		action = powerUp
	}
	if action == powerUp || action == hardReset {
		if err := d.remind(ctx); err != nil {
			return err
		}
	}
	_, err = d.run(ctx, cmdChassisControl, action)
	if err == nil || code(err) == 0 {
		return err
	}
	// Refused: by now it may be so.
	if now, rerr := d.isOn(ctx); rerr == nil && a != bmc.Reset && now == (a == bmc.On) {
		return nil
	}
	return err
}

// remind sets a lasting boot device again before the machine is powered on,
// if the node is said to need that.
func (d *driver) remind(ctx context.Context) error {
	if !d.s.forceBoot || d.boot.Device == "" || !d.boot.Persistent {
		return nil
	}
	return d.setBoot(ctx, d.boot)
}
