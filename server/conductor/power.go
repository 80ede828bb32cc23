package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// Power changes are runs too: they are journaled, hold the node's lock, and
// are finished after a crash. Turning off and turning on are steps of their
// own, so that neither is done twice.
var (
	PowerOn  = Workflow{Name: "power on", Steps: []Step{{Name: "power-on", Do: powerOn}}}
	PowerOff = Workflow{Name: "power off", Steps: []Step{{Name: "power-off", Do: powerOff}}}

	PowerCycle = Workflow{Name: "reboot", Steps: []Step{
		{Name: "power-off", Do: powerOff},
		{Name: "power-on", Do: powerOn},
	}}
	SoftPowerOff = Workflow{Name: "soft power off", Steps: []Step{
		{Name: "soft-power-off", Do: softPowerOff},
	}}
	SoftPowerCycle = Workflow{Name: "soft reboot", Steps: []Step{
		{Name: "soft-power-off", Do: softPowerOff},
		{Name: "power-on", Do: powerOn},
	}}
)

// powerWorkflows are the workflows of the power targets that clients name,
// and the power state that is shown as the target meanwhile.
var powerWorkflows = map[store.PowerState]struct {
	w      *Workflow
	target store.PowerState
}{
	store.PowerOn:      {&PowerOn, store.PowerOn},
	store.PowerOff:     {&PowerOff, store.PowerOff},
	store.Rebooting:    {&PowerCycle, store.PowerOn},
	store.SoftPowerOff: {&SoftPowerOff, store.PowerOff},
	store.SoftReboot:   {&SoftPowerCycle, store.PowerOn},
}

// SetPower implements [API].
func (c *Conductor) SetPower(ctx context.Context, node string, target store.PowerState, timeout time.Duration) error {
	p, ok := powerWorkflows[target]
	if !ok {
		return fmt.Errorf("%w: power target %q is none of: power on, power off, rebooting, soft power off, soft rebooting", ErrInvalid, clip(string(target), 50))
	}
	if timeout < 0 || timeout > maxSoftWait {
		return fmt.Errorf("%w: timeout must be from 1 s to %v", ErrInvalid, maxSoftWait)
	}
	args := map[string]any{"timeout": timeout.Seconds(), "target": string(target)}
	_, err := c.startRun(ctx, node, p.w, store.LabelChangePower, args, func(_ *store.Tx, n *store.Node) error {
		if n.Run != 0 {
			return locked(n)
		}
		if _, err := c.config.BMC.Client(n); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		n.TargetPowerState = p.target
		return nil
	})
	return err
}

// maxSoftWait is the longest that a client may have a shutdown waited for.
const maxSoftWait = 15 * time.Minute

// softPowerOff asks the operating system to shut down. One that does not
// react is left running, as in Ironic: it may be saving something.
func softPowerOff(ctx context.Context, t *Task) error {
	client, err := t.BMC()
	if err != nil {
		return final(err)
	}
	wait := t.Limits().SoftPower
	if s, ok := t.Run.Args["timeout"].(float64); ok && s > 0 {
		wait = time.Duration(s * float64(time.Second))
	}
	err = client.SoftPowerOff(ctx, wait)
	if errors.Is(err, bmc.ErrNoEffect) {
		return final(fmt.Errorf("%w; shut the operating system down by hand, or ask for power off", err))
	}
	if err != nil {
		return hint(err)
	}
	t.forgetAgent()
	t.setPower(store.PowerOff)
	return nil
}
