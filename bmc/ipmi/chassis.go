package ipmi

import (
	"context"
	"fmt"
	"time"

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
	starts := action == powerUp || action == hardReset
	if starts {
		if err := d.remind(ctx); err != nil {
			return err
		}
	}
	_, err = d.run(ctx, cmdChassisControl, action)
	if code(err) != 0 {
		// Refused: by now it may be so.
		if now, rerr := d.isOn(ctx); rerr == nil && a != bmc.Reset && now == (a == bmc.On) {
			return nil
		}
		if starts && code(err) == codeNotInState && d.s.keepFlags && !d.noKeep {
			err = d.startUnkept(ctx, action, err)
		}
	}
	if err == nil && starts {
		d.started()
	}
	return err
}

// startUnkept starts the machine after the order to keep its boot flags was
// withdrawn: some controllers do not start it under that order (I-03). Where
// that was not why, the first refusal is the answer.
func (d *driver) startUnkept(ctx context.Context, action byte, refused error) error {
	d.noKeep = true
	if _, err := d.run(ctx, cmdSetBoot, d.keepValid()...); err != nil {
		d.noKeep = false
		return refused
	}
	d.kept = false
	if d.boot.Device != "" {
		if err := d.setBoot(ctx, d.boot); err != nil {
			return err
		}
	}
	if _, err := d.run(ctx, cmdChassisControl, action); err != nil {
		d.noKeep = false
		return refused
	}
	bmc.Note(ctx, "the controller refused to start the machine while it was told to keep the boot device beyond 60 seconds")
	return nil
}

// remind sets the boot device again before the machine is started: a lasting
// one if the node is said to need that or the controller takes it for one boot
// only (B-04), and any that it may have forgotten meanwhile (I-03).
func (d *driver) remind(ctx context.Context) error {
	late := !d.kept && !d.bootAt.IsZero() && time.Since(d.bootAt) > d.s.timing.late
	if d.boot.Device == "" || !late && !((d.s.forceBoot || d.once) && d.boot.Persistent) {
		return nil
	}
	return d.setBoot(ctx, d.boot)
}

// started notes that the machine has used what was set: a device for one boot
// is gone, and a lasting one stays without being kept.
func (d *driver) started() {
	d.bootAt = time.Time{}
	if !d.boot.Persistent {
		d.boot = bmc.Boot{}
	}
}
