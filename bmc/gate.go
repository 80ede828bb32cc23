package bmc

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A gate lets one call at a time through to a controller, whichever of the
// machines behind it the call is for: small controllers answer parallel
// requests with errors, or not at all.
type gate struct {
	slot chan struct{}
	refs int // clients that use it; guarded by Pool.mu
}

func newGate() *gate { return &gate{slot: make(chan struct{}, 1)} }

// enter waits for the controller to be free, or for ctx to end.
func (g *gate) enter(ctx context.Context) error {
	if ctx.Err() == nil {
		select {
		case g.slot <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("wait for another call to the controller: %w", ctx.Err())
}

func (g *gate) leave() { <-g.slot }

// A fuse blows after some refused logins in a row and stays so for a while:
// every further try brings the controller nearer to locking the account, or
// our address, out.
type fuse struct {
	limit    int
	coolDown time.Duration

	mu      sync.Mutex
	refused int
	until   time.Time
}

// check returns an error while the fuse is blown.
func (f *fuse) check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if wait := time.Until(f.until); wait > 0 {
		return fmt.Errorf("%w %d times; not trying again for %v, or until driver_info is changed, so that the account is not locked",
			ErrCredentials, f.refused, wait.Round(time.Second))
	}
	return nil
}

// report counts a call that ended with or without a refused login.
func (f *fuse) report(refused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !refused {
		f.refused, f.until = 0, time.Time{}
		return
	}
	if f.refused++; f.refused >= f.limit {
		f.until = time.Now().Add(f.coolDown)
	}
}
