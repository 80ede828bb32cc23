package conductor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

const (
	powerFault = "power failure"
	// powerMisses is how many reads in a row must fail before a node goes
	// into maintenance.
	powerMisses = 3
)

// powerReaders is how many controllers are read at once: enough that those
// which hang until their call is given up, one in four, hold up no others.
func powerReaders(nodes int) int { return max(16, nodes/4) }

// syncPower reads the power state of each idle node now and then, and records
// it. It is a reconcile loop: what the controller says is the truth.
func (c *Conductor) syncPower(ctx context.Context) {
	interval := c.config.Timeouts.PowerSync
	if interval < 0 {
		return
	}
	misses := map[string]int{}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.syncAll(ctx, interval, misses)
		case <-ctx.Done():
			return
		}
	}
}

// syncAll reads all idle nodes once, spread over half the interval; but for
// those whose state a run, a person or the last round has shown since.
func (c *Conductor) syncAll(ctx context.Context, interval time.Duration, misses map[string]int) {
	nodes, err := c.idleNodes(interval / 2)
	if err != nil {
		c.log.Error().Err(err).Msg("read nodes for power sync")
		return
	}
	if len(nodes) == 0 {
		return
	}
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		slots = make(chan struct{}, powerReaders(len(nodes)))
		gap   = interval / 2 / time.Duration(len(nodes))
	)
	defer wg.Wait()
	for _, n := range nodes {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		wg.Go(func() {
			defer func() { <-slots }()
			state, err := c.readPowerOf(ctx, n)
			if ctx.Err() != nil {
				return
			}
			mu.Lock()
			misses[n.UUID] = count(misses[n.UUID], err)
			missed := misses[n.UUID]
			mu.Unlock()
			c.recordPower(ctx, n, state, err, missed)
		})
		if !sleep(ctx, gap) {
			return
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for node := range misses {
		if _, ok := c.index.get(node); !ok {
			delete(misses, node)
		}
	}
}

func count(misses int, err error) int {
	if err == nil {
		return 0
	}
	return misses + 1
}

// idleNodes returns the nodes that nothing works on, whose controller is known
// to have worked, and whose power state was not seen for a while.
func (c *Conductor) idleNodes(since time.Duration) (nodes []*store.Node, err error) {
	err = c.db.View(func(tx *store.Tx) error {
		nodes = nil
		for n, err := range store.Nodes.PeekAll(tx) {
			if err != nil {
				return err
			}
			if wantsPowerSync(n) && !c.index.powerSeen(n.UUID, since) {
				nodes = append(nodes, n)
			}
		}
		return nil
	})
	return nodes, err
}

// wantsPowerSync decides whether a node's power state is to be read: not
// while a run has it, not before it was verified, and not in a maintenance
// that a person has ordered.
func wantsPowerSync(n *store.Node) bool {
	switch {
	case n.Run != 0 || n.Reservation != nil:
		return false
	case n.ProvisionState == store.Enroll || n.ProvisionState == store.Verifying:
		return false
	}
	return !n.Maintenance || n.Fault == powerFault
}

func (c *Conductor) readPowerOf(ctx context.Context, n *store.Node) (s store.PowerState, err error) {
	client, err := c.config.BMC.Client(n)
	if err != nil {
		return "", err
	}
	defer func() {
		if err == nil {
			c.index.sawPower(n.UUID)
		}
	}()
	ctx = store.WithScope(ctx, store.Scope{Node: n.UUID})
	return client.PowerState(bmc.Quiet(ctx))
}

// recordPower saves what was read of a node, unless a run has begun
// meanwhile, and has the state restored where that is wished for.
func (c *Conductor) recordPower(ctx context.Context, read *store.Node, state store.PowerState, cause error, missed int) {
	var from store.PowerState
	var restore bool
	err := c.db.Batch(func(tx *store.Tx) error {
		from, restore = "", false
		n, err := store.Nodes.Get(tx, read.UUID)
		if errors.Is(err, store.ErrNotFound) {
			return nil // deleted meanwhile
		}
		if err != nil {
			return err
		}
		if !wantsPowerSync(n) || n.PowerState != read.PowerState {
			return nil // a run has begun or ended meanwhile, and knows better
		}
		was := *n
		if restore = c.restores(n, state, cause); !restore {
			observe(n, state, cause, missed)
		}
		if was.PowerState == n.PowerState && was.Fault == n.Fault && was.LastError == n.LastError {
			return nil
		}
		from, n.UpdatedAt = was.PowerState, time.Now()
		return store.Nodes.Put(tx, n)
	})
	switch {
	case err != nil:
		c.log.Error().Err(err).Str("node", read.UUID).Msg("save power state")
	case restore:
		c.restorePower(ctx, read)
	case from != "" && cause == nil && from != state:
		c.db.Record(ctx, store.Message{
			Node: read.UUID, From: store.Conductor, To: store.Conductor, Kind: store.State, Label: store.LabelPowerChanged,
			Detail: map[string]any{"from": string(from), "to": string(state)},
		})
	}
}

// observe takes over what a read of the power state has shown. Faults that it
// has caused it also takes back.
func observe(n *store.Node, state store.PowerState, cause error, missed int) {
	switch {
	case cause == nil && state != "":
		n.PowerState = state
		if n.Fault == powerFault {
			n.Maintenance, n.MaintenanceReason, n.Fault, n.LastError = false, "", "", ""
		}
	case cause != nil && missed >= powerMisses && n.Fault != powerFault:
		text := clip(fmt.Sprintf("power sync: the power state could not be read %d times in a row: %v", missed, cause), 1000)
		n.PowerState, n.Maintenance, n.Fault, n.LastError = store.PowerError, true, powerFault, text
		n.MaintenanceReason = clip(text, 255)
	}
}

// restores decides whether a node is to be brought back to its recorded
// state; only where configured, and never one with an instance.
func (c *Conductor) restores(n *store.Node, state store.PowerState, cause error) bool {
	return c.config.ForcePowerSync && cause == nil && n.ProvisionState != store.Active && n.Fault == "" &&
		(n.PowerState == store.PowerOn || n.PowerState == store.PowerOff) &&
		(state == store.PowerOn || state == store.PowerOff) && state != n.PowerState
}

func (c *Conductor) restorePower(ctx context.Context, n *store.Node) {
	if err := c.SetPower(ctx, n.UUID, n.PowerState, 0); err != nil {
		c.log.Warn().Err(err).Str("node", n.UUID).Msg("restore power state")
	}
}

// sleep waits, or returns false when ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
