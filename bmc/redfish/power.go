package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"bessemer/bmc"
	"bessemer/store"
)

// PowerState implements [bmc.Driver].
func (d *driver) PowerState(ctx context.Context) (store.PowerState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.read(ctx)
	if err != nil {
		return store.PowerError, err
	}
	return powerState(s), nil
}

// powerState translates; all but on and off is between the two (B-21).
func powerState(s *system) store.PowerState {
	switch schemas.PowerState(s.PowerState) {
	case schemas.OnPowerState:
		return store.PowerOn
	case schemas.OffPowerState:
		return store.PowerOff
	}
	return ""
}

// Power implements [bmc.Driver].
func (d *driver) Power(ctx context.Context, a bmc.PowerAction) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := 1; ; n++ {
		look := d.read
		if n == 1 {
			look = d.recent
		}
		s, err := look(ctx)
		if err != nil {
			return err
		}
		now := powerState(s)
		if done(a, now) || n > 1 && followed(a, now) {
			return nil
		}
		kind, err := d.resetType(ctx, s, a, now)
		if err != nil {
			return err
		}
		if err = d.reset(ctx, s, kind); err == nil {
			return nil
		}
		// Whether it was done after all can only be seen on the machine
		// (B-09, R-12): look again, and ask again if it was not.
		pause, again := repeat(err, n, d.conn.s.retryGap)
		if errors.Is(err, bmc.ErrCredentials) {
			return err
		}
		if status(err) >= 400 && status(err) < 500 {
			return d.unlessDone(ctx, a, err)
		}
		if !again || n > 3 || !sleep(ctx, min(pause, d.conn.s.retryFor)) {
			return err
		}
	}
}

// Cycle implements [bmc.Cycler]. A controller that does not cut a power that
// is off is asked for a power cycle.
func (d *driver) Cycle(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.read(ctx)
	if err != nil {
		return err
	}
	err = d.reset(ctx, s, schemas.ForceOffResetType)
	if status(err) >= 400 && status(err) < 500 && !errors.Is(err, bmc.ErrCredentials) {
		return d.reset(ctx, s, schemas.PowerCycleResetType)
	}
	if err != nil {
		return err
	}
	on, err := d.resetType(ctx, s, bmc.On, store.PowerOff)
	if err != nil {
		return err
	}
	return d.reset(ctx, s, on)
}

// done reports whether nothing is left to do for an action.
func done(a bmc.PowerAction, now store.PowerState) bool {
	switch a {
	case bmc.On:
		return now == store.PowerOn
	case bmc.ForceOff, bmc.SoftOff:
		return now == store.PowerOff
	}
	return false
}

// followed reports whether an action whose answer was lost has begun: the
// machine is between two states. A reset leaves no such trace, and is
// repeated.
func followed(a bmc.PowerAction, now store.PowerState) bool {
	return now == "" && a != bmc.Reset
}

// unlessDone returns err, or nil if the machine is where the refused action
// would have brought it (B-09).
func (d *driver) unlessDone(ctx context.Context, a bmc.PowerAction, err error) error {
	s, rerr := d.read(ctx)
	if rerr == nil && done(a, powerState(s)) {
		return nil
	}
	return err
}

// resetType chooses how to bring an action about among what the controller
// allows (B-10). A graceful restart is never chosen: some make a hard one of
// it. A reset of a machine that is off is power on (I-04).
func (d *driver) resetType(ctx context.Context, s *system, a bmc.PowerAction, now store.PowerState) (schemas.ResetType, error) {
	if a == bmc.Reset && now == store.PowerOff {
		a = bmc.On
	}
	wanted := map[bmc.PowerAction][]schemas.ResetType{
		bmc.On:       {schemas.OnResetType, schemas.ForceOnResetType, schemas.PushPowerButtonResetType},
		bmc.ForceOff: {schemas.ForceOffResetType},
		bmc.SoftOff:  {schemas.GracefulShutdownResetType, schemas.PushPowerButtonResetType},
		bmc.Reset:    {schemas.ForceRestartResetType, schemas.PowerCycleResetType},
	}[a]
	if len(wanted) == 0 {
		return "", fmt.Errorf("power action %q: %w", a, bmc.ErrUnsupported)
	}
	allowed := d.allowed(ctx, s)
	if len(allowed) == 0 { // it does not say
		return wanted[0], nil
	}
	for _, w := range wanted {
		if slices.Contains(allowed, string(w)) {
			return w, nil
		}
	}
	return "", fmt.Errorf("power action %q: %w: it allows only %s", a, bmc.ErrUnsupported, strings.Join(allowed, ", "))
}

// allowed returns the reset types that the controller allows, as told by the
// machine's resource or by the action's own description.
func (d *driver) allowed(ctx context.Context, s *system) []string {
	r := s.Actions.v.Reset.v
	if len(r.Allowed.v) > 0 {
		return plain(r.Allowed.v)
	}
	var info actionInfo
	if strings.HasPrefix(string(r.ActionInfo), "/") {
		if _, err := d.conn.get(ctx, string(r.ActionInfo), &info); err != nil {
			return nil
		}
	}
	for _, p := range info.Parameters.v {
		if p.Name == "ResetType" {
			return plain(p.AllowableValues.v)
		}
	}
	return nil
}

func plain(ts []text) []string {
	ss := make([]string, len(ts))
	for i, t := range ts {
		ss[i] = string(t)
	}
	return ss
}

// reset posts the action; without If-Match, which some take for another
// resource's.
func (d *driver) reset(ctx context.Context, s *system, kind schemas.ResetType) error {
	target := string(s.Actions.v.Reset.v.Target)
	if target == "" {
		target = d.system + "/Actions/ComputerSystem.Reset"
	}
	d.last = reading{}
	d.order = bootOrder{} // what a starting machine does to it is its own affair
	_, err := d.conn.do(ctx, http.MethodPost, target, map[string]string{"ResetType": string(kind)}, nil)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return err
}
