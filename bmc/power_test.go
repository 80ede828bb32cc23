package bmc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/fake"
	"bessemer/store"
	"bessemer/store/storetest"
)

func TestPower(t *testing.T) {
	offOn := func(c *bmc.Client, ctx context.Context) error { return c.Reboot(ctx) }
	on := func(c *bmc.Client, ctx context.Context) error { return c.PowerOn(ctx) }
	off := func(c *bmc.Client, ctx context.Context) error { return c.PowerOff(ctx) }
	tests := []struct {
		name    string
		start   store.PowerState
		lag     time.Duration
		script  func(*fake.Driver) func(context.Context, fake.Call) error
		do      func(*bmc.Client, context.Context) error
		err     error
		actions string
	}{
		{name: "off when on", start: store.PowerOn, do: off, actions: "force off"},
		{name: "off when off asks nothing (I-04)", start: store.PowerOff, do: off},
		{name: "on when on asks nothing", start: store.PowerOn, do: on},
		{name: "reboot is off and on", start: store.PowerOn, do: offOn, actions: "force off, on"},
		{name: "reboot when off is on", start: store.PowerOff, do: offOn, actions: "on"},
		{name: "state that lags is waited for (B-08)", start: store.PowerOn, lag: 50 * time.Second, do: offOn, actions: "force off, on"},
		{name: "state that never comes", start: store.PowerOff, lag: time.Hour, do: on, err: bmc.ErrNoEffect, actions: "on"},
		{
			name: "refused, yet done (B-09, B-20)", start: store.PowerOff, do: on, actions: "on",
			script: func(d *fake.Driver) func(context.Context, fake.Call) error {
				return func(_ context.Context, c fake.Call) error {
					if c.Method != fake.Power {
						return nil
					}
					d.Set(store.PowerOn)
					return errRefused
				}
			},
		},
		{
			name: "refused and not done", start: store.PowerOff, do: on, err: errRefused, actions: "on",
			script: func(*fake.Driver) func(context.Context, fake.Call) error {
				return fake.FailAt(fake.Power, 0, errRefused)
			},
		},
		{
			name: "not answered is not repeated (R-15)", start: store.PowerOff, do: on, err: bmc.ErrUnreachable, actions: "on",
			script: func(*fake.Driver) func(context.Context, fake.Call) error { return fake.HangAt(fake.Power, 0) },
		},
		{
			name: "unsupported is not waited for", start: store.PowerOff, do: on, err: bmc.ErrUnsupported, actions: "on",
			script: func(*fake.Driver) func(context.Context, fake.Call) error {
				return fake.FailAt(fake.Power, 0, bmc.ErrUnsupported)
			},
		},
		{
			name: "one failed read is borne", start: store.PowerOff, lag: 3 * time.Second, do: on, actions: "on",
			script: func(*fake.Driver) func(context.Context, fake.Call) error {
				return fake.FailAt(fake.PowerState, 2, errRefused)
			},
		},
		{
			name: "system that ignores the soft off (B-11)", start: store.PowerOn, err: bmc.ErrNoEffect, actions: "soft off", lag: time.Hour,
			do: func(c *bmc.Client, ctx context.Context) error { return c.SoftReboot(ctx, time.Minute) },
		},
		{
			name: "soft power off", start: store.PowerOn, actions: "soft off", lag: 9 * time.Minute,
			do: func(c *bmc.Client, ctx context.Context) error { return c.SoftPowerOff(ctx, 0) },
		},
		{
			name: "soft reboot", start: store.PowerOn, actions: "soft off, on", lag: 50 * time.Second,
			do: func(c *bmc.Client, ctx context.Context) error { return c.SoftReboot(ctx, 0) },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.driver.Set(tt.start)
				b.driver.Lag(tt.lag)
				if tt.script != nil {
					b.driver.Script(tt.script(b.driver))
				}
				if err := tt.do(b.Client, t.Context()); !errors.Is(err, tt.err) {
					t.Errorf("got error %v, want %v", err, tt.err)
				}
				if got := b.actions(); got != tt.actions {
					t.Errorf("got actions %q, want %q", got, tt.actions)
				}
			})
		})
	}
}

// TestPowerIsCutOnce from a machine that is off and does not turn on (B-12). One
// that is only slow must not lose it over and over.
func TestPowerIsCutOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(context.Context, *bmc.Client, *cycling) error
		want   int
	}{
		{"turned off by somebody else", func(context.Context, *bmc.Client, *cycling) error { return nil }, 1},
		{"turned off by its system", func(ctx context.Context, c *bmc.Client, d *cycling) error {
			d.Set(store.PowerOn)
			return c.SoftPowerOff(ctx, 0)
		}, 1},
		{"cut already", func(ctx context.Context, c *bmc.Client, d *cycling) error {
			d.Set(store.PowerOn)
			return c.PowerOff(ctx)
		}, 0},
		{"cut, and on since", func(ctx context.Context, c *bmc.Client, d *cycling) error {
			d.Set(store.PowerOn)
			err := errors.Join(c.PowerOff(ctx), c.PowerOn(ctx))
			d.Set(store.PowerOff)
			return err
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &cycling{Driver: fake.New()}
				types := bmc.Types{"x": {Open: func(bmc.Target) (bmc.Driver, error) { return d, nil }}}
				p := bmc.NewPool(types, &storetest.Recorder{}, bmc.PoolOptions{})
				defer p.Close()
				c, err := p.Client(&store.Node{UUID: "n", Driver: "x"})
				if err != nil {
					t.Fatal(err)
				}
				if err := tt.before(t.Context(), c, d); err != nil {
					t.Fatal(err)
				}
				d.Lag(100 * time.Second) // longer than a power action is waited for
				first, second := c.PowerOn(t.Context()), c.PowerOn(t.Context())
				if !errors.Is(first, bmc.ErrNoEffect) || second != nil || d.cycles != tt.want {
					t.Errorf("got %v, then %v; the power was cut %d times, want %d", first, second, d.cycles, tt.want)
				}
			})
		})
	}
}

// cycling is a driver that can cut the power of what is off.
type cycling struct {
	*fake.Driver
	cycles int
}

func (d *cycling) Cycle(ctx context.Context) error {
	d.cycles++
	return errors.Join(d.Power(ctx, bmc.ForceOff), d.Power(ctx, bmc.On))
}

func TestTransitionalStateIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &transitional{Driver: fake.New(), reads: 3}
		types := bmc.Types{"x": {Open: func(bmc.Target) (bmc.Driver, error) { return d, nil }}}
		p := bmc.NewPool(types, &storetest.Recorder{}, bmc.PoolOptions{})
		defer p.Close()
		c, err := p.Client(&store.Node{UUID: "n", Driver: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if s, err := c.PowerState(t.Context()); err != nil || s != store.PowerOff {
			t.Errorf("got %q, %v, want power off", s, err)
		}
		d.reads = 1000
		if s, err := c.PowerState(t.Context()); err != nil || s != "" {
			t.Errorf("got %q, %v, want an unknown state", s, err)
		}
	})
}

type transitional struct {
	*fake.Driver
	reads int
}

func (d *transitional) PowerState(ctx context.Context) (store.PowerState, error) {
	if d.reads--; d.reads >= 0 {
		return "", nil
	}
	return d.Driver.PowerState(ctx)
}
