package bmc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bessemer/store"
)

// ErrNoEffect is returned when a controller took an action but the machine
// did not follow in time.
var ErrNoEffect = errors.New("no effect in time")

// PowerState reads the power state. A machine between two states is given a
// few seconds to get to one (B-21); "" says that it has not.
func (c *Client) PowerState(ctx context.Context) (s store.PowerState, err error) {
	err = c.arrow(ctx, store.LabelPowerState, func(ctx context.Context) error {
		s, err = c.settled(ctx)
		return err
	})
	return s, err
}

// PowerOn turns the machine on, unless it is, and waits until it is.
func (c *Client) PowerOn(ctx context.Context) error {
	return c.arrow(ctx, store.LabelPowerOn, c.on)
}

// PowerOff turns the machine off at once, unless it is off, and waits until
// it is.
func (c *Client) PowerOff(ctx context.Context) error {
	return c.arrow(ctx, store.LabelPowerOff, c.off)
}

// SoftPowerOff asks the operating system to shut down and waits until the
// machine is off, for timeout or, when that is 0, the pool's SoftWait. A
// system that does not react is ErrNoEffect (B-11); the machine is then left
// on, and PowerOff is what remains.
func (c *Client) SoftPowerOff(ctx context.Context, timeout time.Duration) error {
	return c.arrow(ctx, store.LabelSoftPowerOff, func(ctx context.Context) error { return c.softOff(ctx, timeout) })
}

// Reboot turns the machine off at once, if it is on, and then on: two steps
// that can be verified, where a reset may be ignored unseen (B-10, B-13).
func (c *Client) Reboot(ctx context.Context) error {
	return c.arrow(ctx, store.LabelReboot, func(ctx context.Context) error {
		if err := c.off(ctx); err != nil {
			return err
		}
		return c.on(ctx)
	})
}

// SoftReboot is Reboot that asks the operating system to shut down, as
// SoftPowerOff does.
func (c *Client) SoftReboot(ctx context.Context, timeout time.Duration) error {
	return c.arrow(ctx, store.LabelSoftReboot, func(ctx context.Context) error {
		if err := c.softOff(ctx, timeout); err != nil {
			return err
		}
		return c.on(ctx)
	})
}

func (c *Client) on(ctx context.Context) error {
	return c.power(ctx, On, store.PowerOn, c.o.PowerWait)
}

func (c *Client) off(ctx context.Context) error {
	return c.power(ctx, ForceOff, store.PowerOff, c.o.PowerWait)
}

func (c *Client) softOff(ctx context.Context, timeout time.Duration) error {
	if timeout <= 0 {
		timeout = c.o.SoftWait
	}
	return c.power(ctx, SoftOff, store.PowerOff, timeout)
}

// power brings the machine to a state by an action, unless it is there. What
// the controller answers to the action decides nothing by itself: some refuse
// what is already so (B-09), some report an error and do it (B-20), some
// accept and take a minute (B-08), some answer too late. The state
// that is read afterwards decides.
func (c *Client) power(ctx context.Context, a PowerAction, want store.PowerState, within time.Duration) error {
	s, err := c.settled(ctx)
	if err != nil {
		return err
	}
	if s == want {
		return nil
	}
	acted := c.do(ctx, "power "+string(a), func(ctx context.Context) error { return c.driver.Power(ctx, a) })
	if final(ctx, acted) {
		return acted
	}
	last, err := c.await(ctx, want, c.patience(acted, within))
	if acted == nil && a == On && last == store.PowerOff && errors.Is(err, ErrNoEffect) && !c.cut.Load() {
		last, err = c.cycle(ctx, within)
	}
	if acted != nil && last == "" && errors.Is(err, ErrNoEffect) {
		last, err = c.await(ctx, want, within) // refused, but under way: 409 while it powers on
	}
	switch {
	case err == nil:
		c.mode.started(a == On)
		c.cut.Store(a == ForceOff)
		if acted != nil {
			Note(ctx, fmt.Sprintf("the controller reported an error though the machine is in state %q: %v", want, acted))
		}
		return nil
	case acted != nil:
		return acted
	case errors.Is(err, ErrNoEffect):
		return fmt.Errorf("power %s at %s with driver %s: %w: the controller accepted it, but after %v the state is %s",
			a, c.address, c.kind, err, within, describe(last))
	}
	return err
}

// cycle starts a machine that does not turn on by cutting its power first:
// some do not come back from what the operating system did to them (B-12). It
// is done once, and not where the power was cut before: a machine that is slow
// to turn on would begin anew each time, and never get there.
func (c *Client) cycle(ctx context.Context, within time.Duration) (last store.PowerState, err error) {
	cycler, ok := c.driver.(Cycler)
	if !ok {
		return store.PowerOff, ErrNoEffect
	}
	c.cut.Store(true)
	if err := c.do(ctx, "power cycle", cycler.Cycle); err != nil {
		return store.PowerOff, err
	}
	if last, err = c.await(ctx, store.PowerOn, within); err == nil {
		Note(ctx, "the machine did not turn on before its power was cut by the controller, though it was off")
	}
	return last, err
}

// patience is how long to wait for an action: not long for a refused one.
func (c *Client) patience(acted error, within time.Duration) time.Duration {
	if acted == nil || errors.Is(acted, ErrUnreachable) {
		return within
	}
	return min(within, c.o.Settle)
}

// settled reads the power state until it is not a transitional one, for a few
// seconds.
func (c *Client) settled(ctx context.Context) (store.PowerState, error) {
	for p := c.poll(c.o.Settle); ; {
		s, err := c.read(ctx)
		if err != nil || s != "" || !p.wait(ctx) {
			return s, orEnded(ctx, err)
		}
	}
}

// await reads the power state until it is the wanted one. Errors of single
// reads are borne until the time is over: a controller may restart, or be
// overloaded, while its machine changes state.
func (c *Client) await(ctx context.Context, want store.PowerState, within time.Duration) (last store.PowerState, err error) {
	for p := c.poll(within); ; {
		s, err := c.read(ctx)
		if err == nil && s == want {
			return s, nil
		}
		if final(ctx, err) {
			return last, err
		}
		if err == nil {
			last = s
		}
		if !p.wait(ctx) {
			if err == nil && ctx.Err() == nil {
				err = ErrNoEffect
			}
			return last, orEnded(ctx, err)
		}
	}
}

func (c *Client) read(ctx context.Context) (s store.PowerState, err error) {
	err = c.do(ctx, "read the power state", func(ctx context.Context) (err error) {
		s, err = c.driver.PowerState(ctx)
		return err
	})
	if err == nil && s == store.PowerOn {
		c.cut.Store(false)
	}
	return s, err
}

// final reports whether an error makes it pointless to look at the machine.
func final(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrCredentials) || errors.Is(err, ErrUnsupported) ||
		errors.Is(err, ErrTLS) || errors.Is(err, errClosed)
}

// orEnded returns err, or why ctx has ended.
func orEnded(ctx context.Context, err error) error {
	if err == nil {
		return ctx.Err()
	}
	return err
}

func describe(s store.PowerState) string {
	if s == "" {
		return "unknown or between two states"
	}
	return fmt.Sprintf("%q", s)
}
