package fake

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// Methods of a driver, as [Driver.Script] and [Driver.Calls] name them.
const (
	Identify    = "identify"
	PowerState  = "power state"
	Power       = "power"
	Boot        = "boot"
	SetBoot     = "set boot"
	BootDevices = "boot devices"
	Close       = "close"
)

// A Call is one call of a driver's method.
type Call struct {
	Method string
	N      int    // how many calls of this method there have been, this one included
	Arg    string // the power action, or the boot setting
}

// Driver is a controller with its machine, in memory. It is safe for
// concurrent use.
type Driver struct {
	mu     sync.Mutex
	power  store.PowerState
	since  time.Time // when power is seen; before that, seen is
	seen   store.PowerState
	lag    time.Duration
	boot   bmc.Boot
	counts map[string]int
	calls  []Call // the last maxCalls
	script func(context.Context, Call) error
}

const maxCalls = 1000

// New returns a controller whose machine is off.
func New() *Driver {
	return &Driver{power: store.PowerOff, seen: store.PowerOff, counts: map[string]int{}}
}

// Set puts the machine into a power state behind the controller's back; a
// state other than on or off is ignored.
func (d *Driver) Set(s store.PowerState) {
	if s != store.PowerOn && s != store.PowerOff {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.power, d.seen, d.since = s, s, time.Time{}
}

// Script has fn called before each method does its work; an error of it is
// the method's. A nil fn ends the script. See [FailAt], [HangAt], [DelayAt].
func (d *Driver) Script(fn func(context.Context, Call) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.script = fn
}

// Lag makes the controller tell of a change of the power state only so much
// later, as those do that answer from a cache (B-08).
func (d *Driver) Lag(lag time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lag = lag
}

// Calls returns the last calls, at least 500 of them, of one method or, for "", of all.
func (d *Driver) Calls(method string) []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	if method == "" {
		return slices.Clone(d.calls)
	}
	var cs []Call
	for _, c := range d.calls {
		if c.Method == method {
			cs = append(cs, c)
		}
	}
	return cs
}

// begin counts a call and runs the script for it.
func (d *Driver) begin(ctx context.Context, method, arg string) error {
	d.mu.Lock()
	d.counts[method]++
	c := Call{Method: method, N: d.counts[method], Arg: arg}
	if len(d.calls) == maxCalls {
		d.calls = slices.Delete(d.calls, 0, maxCalls/2)
	}
	d.calls = append(d.calls, c)
	script := d.script
	d.mu.Unlock()
	if script != nil {
		if err := script(ctx, c); err != nil {
			return fmt.Errorf("fake controller: %s: %w", method, err)
		}
	}
	return ctx.Err()
}

// Identify implements [bmc.Driver].
func (d *Driver) Identify(ctx context.Context) (bmc.Info, error) {
	if err := d.begin(ctx, Identify, ""); err != nil {
		return bmc.Info{}, err
	}
	return bmc.Info{Vendor: "Bessemer", Model: "fake-hardware"}, nil
}

// PowerState implements [bmc.Driver].
func (d *Driver) PowerState(ctx context.Context) (store.PowerState, error) {
	if err := d.begin(ctx, PowerState, ""); err != nil {
		return store.PowerError, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Now().Before(d.since) {
		return d.seen, nil
	}
	return d.power, nil
}

// Power implements [bmc.Driver].
func (d *Driver) Power(ctx context.Context, a bmc.PowerAction) error {
	if err := d.begin(ctx, Power, string(a)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	want := store.PowerOn
	if a == bmc.ForceOff || a == bmc.SoftOff {
		want = store.PowerOff
	}
	if want != d.power {
		d.seen, d.power, d.since = d.power, want, time.Now().Add(d.lag)
	}
	if want == store.PowerOn && !d.boot.Persistent {
		d.boot = bmc.Boot{}
	}
	return nil
}

// Boot implements [bmc.Driver].
func (d *Driver) Boot(ctx context.Context) (bmc.Boot, error) {
	if err := d.begin(ctx, Boot, ""); err != nil {
		return bmc.Boot{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.boot, nil
}

// SetBoot implements [bmc.Driver].
func (d *Driver) SetBoot(ctx context.Context, b bmc.Boot) error {
	if err := d.begin(ctx, SetBoot, b.String()); err != nil {
		return err
	}
	if b.Device == "" {
		b = bmc.Boot{}
	} else if !slices.Contains(devices, b.Device) {
		return fmt.Errorf("fake controller: boot device %q: %w", b.Device, bmc.ErrUnsupported)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boot = b
	return nil
}

var devices = []bmc.BootDevice{bmc.PXE, bmc.Disk, bmc.CDROM, bmc.BIOSSetup, bmc.Safe, bmc.UEFIHTTP}

// BootDevices implements [bmc.Driver].
func (d *Driver) BootDevices(ctx context.Context) ([]bmc.BootDevice, error) {
	return slices.Clone(devices), d.begin(ctx, BootDevices, "")
}

// Close implements [bmc.Driver]. The machine lives on.
func (d *Driver) Close() error { return d.begin(context.Background(), Close, "") }
