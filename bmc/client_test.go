package bmc_test

import (
	"context"
	"errors"
	"strings"
	"sync"
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

func TestSetBootIsReadBack(t *testing.T) {
	want := bmc.Boot{Device: bmc.PXE, Mode: "uefi"}
	tests := []struct {
		name string
		set  bmc.Boot
		got  bmc.Boot
		err  error // of the read
		fail string
		note bool
	}{
		{name: "as asked", set: want, got: want},
		{name: "mode not told (B-05)", set: want, got: bmc.Boot{Device: bmc.PXE}},
		{name: "another device", set: want, got: bmc.Boot{Device: bmc.Disk, Mode: "uefi"}, fail: "wrong device"},
		{name: "nothing set", set: want, got: bmc.Boot{}, fail: "says none"},
		{name: "another mode", set: want, got: bmc.Boot{Device: bmc.PXE, Mode: "bios"}, fail: "wrong boot mode"},
		{name: "persistent taken for once (B-04)", set: bmc.Boot{Device: bmc.PXE, Persistent: true}, got: bmc.Boot{Device: bmc.PXE}, note: true},
		{name: "once taken for persistent", set: want, got: bmc.Boot{Device: bmc.PXE, Persistent: true}, note: true},
		{name: "read-back means nothing", set: want, err: bmc.ErrNoReadBack, note: true},
		{name: "read fails", set: want, err: errRefused, fail: "409"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := &storetest.Recorder{}
				d := &forgetful{Driver: fake.New(), boot: tt.got, err: tt.err}
				types := bmc.Types{"x": {Open: func(bmc.Target) (bmc.Driver, error) { return d, nil }}}
				p := bmc.NewPool(types, rec, bmc.PoolOptions{})
				defer p.Close()
				c, _ := p.Client(&store.Node{UUID: "n", Driver: "x"})
				err := c.SetBoot(t.Context(), tt.set)
				if tt.fail == "" && err != nil || tt.fail != "" && (err == nil || !strings.Contains(err.Error(), tt.fail)) {
					t.Errorf("got error %v, want one with %q", err, tt.fail)
				}
				var notes int
				for _, m := range rec.Messages() {
					if m.Label == store.LabelControllerNote {
						notes++
					}
				}
				if got := notes == 1; got != tt.note {
					t.Errorf("got %d notes, want a note: %v", notes, tt.note)
				}
			})
		})
	}
}

type forgetful struct {
	*fake.Driver
	boot bmc.Boot
	err  error
}

func (d *forgetful) Boot(context.Context) (bmc.Boot, error) { return d.boot, d.err }

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

func TestChangedDriverInfoReopens(t *testing.T) {
	b := newBench(t)
	b.driver.Script(fake.FailAt(fake.PowerState, 0, bmc.ErrCredentials))
	for range 3 {
		_, _ = b.Client.PowerState(t.Context())
	}
	if c, _ := b.pool.Client(b.node.Clone()); c != b.Client {
		t.Error("the same driver_info got another client")
	}
	b.driver.Script(nil)
	b.node.DriverInfo = map[string]any{"password": "other"}
	c, err := b.pool.Client(b.node)
	if err != nil || c == b.Client {
		t.Fatalf("got %v, %v, want a new client", c, err)
	}
	if _, err := c.PowerState(t.Context()); err != nil {
		t.Errorf("new driver_info: %v", err)
	}
	b.pool.Close()
	if n := len(b.driver.Calls(fake.Close)); n != 2 {
		t.Errorf("got %d closed drivers, want 2", n)
	}
	if _, err := b.pool.Client(b.node); err == nil {
		t.Error("a closed pool gave a client")
	}
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

// TestOneCallPerController has many callers of two nodes behind one address.
func TestOneCallPerController(t *testing.T) {
	var mu sync.Mutex
	busy, most := 0, 0
	d := fake.New()
	d.Script(func(context.Context, fake.Call) error {
		mu.Lock()
		busy++
		most = max(most, busy)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		busy--
		mu.Unlock()
		return nil
	})
	types := bmc.Types{"x": {Open: func(bmc.Target) (bmc.Driver, error) { return addressed{d}, nil }}}
	p := bmc.NewPool(types, &storetest.Recorder{}, bmc.PoolOptions{})
	defer p.Close()
	var wg sync.WaitGroup
	for _, uuid := range []string{"a", "b"} {
		c, err := p.Client(&store.Node{UUID: uuid, Driver: "x"})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			wg.Go(func() { _, _ = c.PowerState(t.Context()) })
		}
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("got %d calls at once, want 1", most)
	}
}

type addressed struct{ *fake.Driver }

func (addressed) Address() string { return "bmc:443" }

func TestWaitForTheControllerEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.driver.Script(fake.HangAt(fake.PowerState, 1))
		go b.Client.PowerState(t.Context())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := b.Client.PowerState(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("got %v after %v, want the deadline after 1s", err, time.Since(begun))
		}
		time.Sleep(2 * time.Minute)
	})
}

func TestUnknownDriver(t *testing.T) {
	p := bmc.NewPool(bmc.Types{"redfish": {}, "ipmi": {}}, &storetest.Recorder{}, bmc.PoolOptions{})
	_, err := p.Client(&store.Node{Driver: "nosuch"})
	if err == nil || !strings.Contains(err.Error(), "ipmi, redfish") {
		t.Errorf("got %v, want an error with the known drivers", err)
	}
}

func TestFields(t *testing.T) {
	f := bmc.Target{DriverInfo: map[string]any{
		"number": float64(123456), "huge": 1e20, "list": []any{"x"}, "no": "False", "maybe": "perhaps", "port": "70000",
	}}.Fields()
	if got := f.String("number", ""); got != "123456" {
		t.Errorf("got %q, want the digits (I-07)", got)
	}
	if f.Bool("no", true) {
		t.Error(`"False" is true (I-14)`)
	}
	if err := f.Err(); err != nil {
		t.Fatal(err)
	}
	f.String("huge", "")
	f.String("list", "")
	f.Bool("maybe", false)
	f.Int("port", 623, 1, 65535)
	f.Required("address")
	for _, key := range []string{"huge", "list", "maybe", "port", "address"} {
		if !strings.Contains(f.Err().Error(), key+": ") {
			t.Errorf("no fault of %s in %v", key, f.Err())
		}
	}
}
