package bmc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/fake"
	"bessemer/store"
	"bessemer/store/storetest"
)

// bench is a pool with one node on a scripted controller.
type bench struct {
	*bmc.Client
	pool   *bmc.Pool
	driver *fake.Driver
	node   *store.Node
	rec    *storetest.Recorder
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{driver: fake.New(), rec: &storetest.Recorder{}}
	kind := fake.TypeOf(func(bmc.Target) *fake.Driver { return b.driver })
	kind.Properties = []bmc.Property{{Name: "password", Secret: true}}
	b.pool = bmc.NewPool(bmc.Types{"fake-hardware": kind}, b.rec, bmc.PoolOptions{})
	b.node = &store.Node{UUID: "n1", Driver: "fake-hardware", DriverInfo: map[string]any{"password": "canary-4711"}}
	var err error
	if b.Client, err = b.pool.Client(b.node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.pool.Close() })
	return b
}

func (b *bench) actions() string {
	var as []string
	for _, c := range b.driver.Calls(fake.Power) {
		as = append(as, c.Arg)
	}
	return strings.Join(as, ", ")
}

var errRefused = errors.New("409 already so")

func TestArrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.driver.Script(fake.FailAt(fake.BootDevices, 1, errRefused))
		ctx := t.Context()
		_ = b.PowerOff(ctx)
		_ = b.SetBoot(ctx, bmc.Boot{Device: bmc.PXE})
		_ = b.Reboot(ctx)
		_, _ = b.BootDevices(ctx)
		_, _ = b.Client.PowerState(bmc.Quiet(ctx))
		want := []string{"POWER OFF", "Set boot device: pxe", "REBOOT", "List boot devices"}
		ms := b.rec.Messages()
		if len(ms) != 2*len(want) {
			t.Fatalf("got %d messages, want %d", len(ms), 2*len(want))
		}
		for i, label := range want {
			req, rep := ms[2*i], ms[2*i+1]
			if req.Label != label || req.From != store.Conductor || req.To != store.BMC || req.Node != "n1" {
				t.Errorf("got request %+v, want %q of n1 to the BMC", req, label)
			}
			if rep.ReplyTo != req.Seq || rep.From != store.BMC {
				t.Errorf("got reply %+v, want the one to %d", rep, req.Seq)
			}
		}
		if ms[7].Outcome != store.Failed || !strings.Contains(ms[7].Error, "409") {
			t.Errorf("got %+v, want a failed reply", ms[7])
		}
	})
}

func TestQuietRecordsFailures(t *testing.T) {
	b := newBench(t)
	b.driver.Script(fake.FailAt(fake.PowerState, 0, errRefused))
	if _, err := b.Client.PowerState(bmc.Quiet(t.Context())); err == nil {
		t.Fatal("got no error")
	}
	if n := len(b.rec.Messages()); n != 2 {
		t.Errorf("got %d messages, want 2", n)
	}
}

func TestRefusedLoginsStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.driver.Script(fake.FailAt(fake.PowerState, 0, bmc.ErrCredentials))
		for range 5 {
			if _, err := b.Client.PowerState(t.Context()); !errors.Is(err, bmc.ErrCredentials) {
				t.Fatalf("got %v, want ErrCredentials", err)
			}
		}
		if n := len(b.driver.Calls(fake.PowerState)); n != 2 {
			t.Errorf("got %d tries, want 2", n)
		}
		time.Sleep(11 * time.Minute)
		b.driver.Script(nil)
		if _, err := b.Client.PowerState(t.Context()); err != nil {
			t.Errorf("after the cool-down: %v", err)
		}
	})
}

func TestPanicBecomesAnError(t *testing.T) {
	b := newBench(t)
	b.driver.Script(func(context.Context, fake.Call) error { panic("index out of range, password canary-4711") })
	_, err := b.Client.PowerState(t.Context())
	if err == nil || !strings.Contains(err.Error(), "driver fake-hardware panicked") {
		t.Fatalf("got %v, want the driver's panic", err)
	}
	if strings.Contains(err.Error(), "canary") {
		t.Errorf("the password is in %v", err)
	}
	b.driver.Script(nil)
	if _, err := b.Client.PowerState(t.Context()); err != nil {
		t.Errorf("after the panic: %v", err)
	}
}

func TestPasswordIsInNoRecord(t *testing.T) {
	b := newBench(t)
	b.driver.Script(fake.FailAt(fake.Identify, 0, errors.New("login canary-4711 refused")))
	_, err := b.Identify(t.Context())
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want an error without the password", err)
	}
	for _, m := range b.rec.Messages() {
		if strings.Contains(m.Error, "canary") {
			t.Errorf("the password is in %+v", m)
		}
	}
}
