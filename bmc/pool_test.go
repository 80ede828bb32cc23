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

func TestForgetEndsTheSession(t *testing.T) {
	b := newBench(t)
	b.pool.Forget("n1")
	b.pool.Forget("no such node")
	if err := b.pool.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(b.driver.Calls(fake.Close)); n != 1 {
		t.Errorf("got %d closed drivers, want 1", n)
	}
	if _, err := b.Client.PowerState(t.Context()); err == nil {
		t.Error("a forgotten client still works")
	}
}
