// Package bmctest is the suite that every driver passes.
package bmctest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/store"
	"bessemer/store/storetest"
)

// A Rig is a driver with a controller of its own behind it, for one test.
type Rig struct {
	// Driver is open to a controller whose machine is off and has no boot
	// setting. The suite closes it.
	Driver bmc.Driver
	// Password is the one the driver uses, "" if it needs none. It must be
	// unlike any other text.
	Password string
	// WrongPassword, Nothing and Silent return drivers for the same
	// controller with another password (which is WrongSecret), for an address
	// where nothing listens, and for one where what is sent is never
	// answered. The suite closes them. Nil where there is no such thing.
	WrongPassword, Nothing, Silent func() bmc.Driver
	WrongSecret                    string
	// Unread says that the controller cannot tell its boot setting.
	Unread bool
	// Lacks are devices that this controller refuses though its driver lists
	// them.
	Lacks []bmc.BootDevice
	// OneMode says that the controller keeps no boot mode.
	OneMode bool
	// Wire says that the driver speaks over a network, and so must tell of
	// its exchanges.
	Wire bool
}

// Suite checks a driver; open is called for each of its tests.
func Suite(t *testing.T, open func(t *testing.T) Rig) {
	for _, tt := range []struct {
		name string
		run  func(*testing.T, Rig)
	}{
		{"power", power},
		{"boot device", bootDevice},
		{"identify", identify},
		{"wrong password", wrongPassword},
		{"nothing listens", nothing},
		{"silent controller", silent},
		{"ended context", ended},
		{"close twice", closeTwice},
		{"client", client},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t)
			t.Cleanup(func() { _ = r.Driver.Close() })
			tt.run(t, r)
		})
	}
}

// power does each action twice: what is already so must succeed.
func power(t *testing.T, r Rig) {
	ctx := t.Context()
	for _, tt := range []struct {
		action bmc.PowerAction
		want   store.PowerState
	}{
		{bmc.ForceOff, store.PowerOff},
		{bmc.On, store.PowerOn},
		{bmc.On, store.PowerOn},
		{bmc.Reset, store.PowerOn},
		{bmc.ForceOff, store.PowerOff},
		{bmc.ForceOff, store.PowerOff},
		{bmc.Reset, store.PowerOn}, // of a machine that is off: on (I-04)
		{bmc.SoftOff, store.PowerOff},
		{bmc.SoftOff, store.PowerOff},
	} {
		if err := r.Driver.Power(ctx, tt.action); err != nil {
			t.Fatalf("%s: %v", tt.action, err)
		}
		if got := awaitPower(t, r.Driver, tt.want); got != tt.want {
			t.Fatalf("after %s: got state %q, want %q", tt.action, got, tt.want)
		}
	}
}

// awaitPower reads the power state until it is want, for some seconds.
func awaitPower(t *testing.T, d bmc.Driver, want store.PowerState) (got store.PowerState) {
	t.Helper()
	for range 100 {
		var err error
		if got, err = d.PowerState(t.Context()); err != nil {
			t.Fatalf("read power state: %v", err)
		}
		if got == want {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return got
}

func bootDevice(t *testing.T, r Rig) {
	ctx := t.Context()
	devices, err := r.Driver.BootDevices(ctx)
	if err != nil {
		t.Fatalf("list boot devices: %v", err)
	}
	for _, d := range []bmc.BootDevice{bmc.PXE, bmc.Disk} {
		if !slices.Contains(devices, d) {
			t.Errorf("boot devices %v lack %s", devices, d)
		}
	}
	for _, device := range devices {
		if slices.Contains(r.Lacks, device) {
			continue
		}
		for _, mode := range []string{"uefi", "bios", ""} {
			for _, persistent := range []bool{false, true} {
				if device == bmc.UEFIHTTP && mode == "bios" {
					continue
				}
				setBoot(t, r, bmc.Boot{Device: device, Mode: mode, Persistent: persistent})
			}
		}
	}
	if err := r.Driver.SetBoot(ctx, bmc.Boot{}); err != nil {
		t.Errorf("clear: %v", err)
	}
	if got, err := r.Driver.Boot(ctx); !r.Unread && (err != nil || got.Device != "") {
		t.Errorf("after clearing: got %s, %v, want none", got, err)
	}
	if err := r.Driver.SetBoot(ctx, bmc.Boot{Device: "gramophone"}); !errors.Is(err, bmc.ErrUnsupported) {
		t.Errorf("unknown device: got %v, want ErrUnsupported", err)
	}
}

func setBoot(t *testing.T, r Rig, want bmc.Boot) {
	t.Helper()
	ctx := t.Context()
	for range 2 {
		if err := r.Driver.SetBoot(ctx, want); err != nil {
			t.Fatalf("set %s: %v", want, err)
		}
	}
	got, err := r.Driver.Boot(ctx)
	if r.Unread {
		if !errors.Is(err, bmc.ErrNoReadBack) {
			t.Errorf("read %s: got %s, %v, want ErrNoReadBack", want, got, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("read %s: %v", want, err)
	}
	if r.OneMode || want.Mode == "" {
		got.Mode, want.Mode = "", ""
	}
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func identify(t *testing.T, r Rig) {
	info, err := r.Driver.Identify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, mac := range info.MACs {
		if mac != strings.ToLower(mac) || strings.Count(mac, ":") != 5 {
			t.Errorf("MAC %q is not in lower case with colons", mac)
		}
	}
}

func wrongPassword(t *testing.T, r Rig) {
	if r.WrongPassword == nil {
		t.Skip("the driver has no password")
	}
	d := r.WrongPassword()
	defer d.Close()
	_, err := d.PowerState(t.Context())
	if !errors.Is(err, bmc.ErrCredentials) {
		t.Errorf("got %v, want ErrCredentials", err)
	}
	noSecret(t, err, r.WrongSecret)
	if _, err := d.Identify(t.Context()); !errors.Is(err, bmc.ErrCredentials) {
		t.Errorf("identify: got %v, want ErrCredentials", err)
	}
}

func nothing(t *testing.T, r Rig) {
	if r.Nothing == nil {
		t.Skip("the driver talks to no one")
	}
	d := r.Nothing()
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := d.PowerState(ctx)
	if !errors.Is(err, bmc.ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
	noSecret(t, err, r.Password)
}

func silent(t *testing.T, r Rig) {
	if r.Silent == nil {
		t.Skip("the driver talks to no one")
	}
	d := r.Silent()
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- d.Power(ctx, bmc.On) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a silent controller did what was asked")
		}
		noSecret(t, err, r.Password)
	case <-time.After(10 * time.Second):
		t.Fatal("the call outlives its context by far")
	}
}

func ended(t *testing.T, r Rig) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Driver.Power(ctx, bmc.On); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context canceled", err)
	}
	if got := awaitPower(t, r.Driver, store.PowerOff); got != store.PowerOff {
		t.Errorf("got state %q after a cancelled action, want power off", got)
	}
}

func closeTwice(t *testing.T, r Rig) {
	if _, err := r.Driver.PowerState(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Driver.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// client drives the machine as the appliance does, and looks for the password
// in all that is recorded.
func client(t *testing.T, r Rig) {
	rec := &storetest.Recorder{}
	pool := bmc.NewPool(bmc.Types{"x": {Open: func(bmc.Target) (bmc.Driver, error) { return r.Driver, nil }}}, rec, bmc.PoolOptions{PollMin: 20 * time.Millisecond})
	defer pool.Close()
	c, err := pool.Client(&store.Node{UUID: "n1", Driver: "x"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := c.Identify(ctx); err != nil {
		t.Error(err)
	}
	for _, do := range []func(context.Context) error{
		c.PowerOff,
		func(ctx context.Context) error { return c.SetBoot(ctx, bmc.Boot{Device: bmc.PXE, Mode: "uefi"}) },
		c.Reboot,
		c.Reboot,
		func(ctx context.Context) error {
			return c.SetBoot(ctx, bmc.Boot{Device: bmc.Disk, Mode: "uefi", Persistent: true})
		},
		c.PowerOff,
	} {
		if err := do(ctx); err != nil {
			t.Error(err)
		}
	}
	for _, m := range rec.Messages() {
		if r.Wire && m.Kind == store.Reply && m.Wire == nil {
			t.Errorf("the reply to %q does not tell of the wire", m.Label)
		}
	}
	raw, err := json.Marshal(rec.Messages())
	if err != nil {
		t.Fatal(err)
	}
	if r.Password != "" && strings.Contains(string(raw), r.Password) {
		t.Errorf("the password is recorded: %s", raw)
	}
}

func noSecret(t *testing.T, err error, secret string) {
	t.Helper()
	if err != nil && secret != "" && strings.Contains(err.Error(), secret) {
		t.Errorf("the password is in the error: %v", err)
	}
}
