package rack

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"bessemer/bmc/sim/firmware"
)

// renewAgain is how long after an attempt that was not answered the next one
// follows, and foreverLease a lease that needs none (RFC 2131, 3.3).
const (
	renewAgain   = 30 * time.Second
	foreverLease = 0xffffffff * time.Second
)

// A tenure keeps the lease of a machine whose agent runs, as the ramdisk's
// DHCP client does: it renews it half-way each time. It costs a timer.
type tenure struct {
	renew func() (time.Duration, error)
	lost  func(error) // the address is another's

	mu    sync.Mutex
	timer *time.Timer
	ended bool
	tries sync.WaitGroup
}

// hold begins to keep a lease, until end is called.
func (m *Machine) hold(ctx context.Context, r *run, l firmware.Lease, lost func(error)) *tenure {
	t := &tenure{lost: lost, renew: func() (time.Duration, error) { return firmware.Renew(ctx, m.netConfig(r), l) }}
	t.after(l.For)
	return t
}

// after has a lease renewed that holds for a time.
func (t *tenure) after(lease time.Duration) {
	if lease > 0 && lease < foreverLease {
		t.in(lease / 2)
	}
}

func (t *tenure) in(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.timer = time.AfterFunc(d, func() {
		t.mu.Lock()
		ended := t.ended
		if !ended {
			t.tries.Add(1)
		}
		t.mu.Unlock()
		if !ended {
			defer t.tries.Done()
			t.try()
		}
	})
}

func (t *tenure) try() {
	defer func() {
		if p := recover(); p != nil { // it is one machine's trouble
			t.lost(fmt.Errorf("renew lease: panic: %v", p))
		}
	}()
	lease, err := t.renew()
	switch {
	case err == nil:
		t.after(lease)
	case errors.Is(err, firmware.ErrLeaseLost):
		t.lost(err)
	default: // nobody else has got it as long as the appliance is away
		t.in(renewAgain)
	}
}

// end gives up the lease, and waits for an attempt that is under way.
func (t *tenure) end() {
	t.mu.Lock()
	t.ended = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Unlock()
	t.tries.Wait()
}
