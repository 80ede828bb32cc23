package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bessemer/store"
)

// abort takes a node out of its waiting and sends its run through the steps
// that tidy up. However long these take, the node is in its failed state.
func (c *Conductor) abort(ctx context.Context, n *store.Node) error {
	var from, to store.ProvisionState
	err := c.db.Batch(func(tx *store.Tx) error {
		n, err := findNode(tx, n.UUID)
		if err != nil {
			return err
		}
		if err := allowed(n, "abort"); err != nil {
			return err
		}
		if n.Run == 0 {
			return fmt.Errorf("%w: nothing runs on node %s", ErrState, n.UUID)
		}
		r, err := store.Runs.Get(tx, store.RunKey(n.Run))
		if err != nil {
			return err
		}
		c.abortRun(r)
		from, n.LastError = n.ProvisionState, r.Error
		to, _ = NextState(from, "abort")
		n.ProvisionState, n.ProvisionUpdatedAt, n.UpdatedAt = to, time.Now(), time.Now()
		return errors.Join(store.Runs.Put(tx, r), store.Nodes.Put(tx, n))
	})
	if err == nil {
		c.stateChanged(ctx, n.UUID, from, to)
	}
	if to != "" { // also when the disk failed: it may have taken the abort all the same
		c.refresh(n.UUID)
		c.interrupt(n.UUID)
	}
	return err
}

func (c *Conductor) abortRun(r *store.Run) {
	if r.Ending != "" {
		return // it is ending already
	}
	r.Ending = store.Aborted
	r.Error = r.Step + ": aborted by a request"
	if seen := c.index.lastSeen(r.Node); r.Ramdisk != nil && seen.At.After(r.Ramdisk.BootedAt) {
		r.Error += "; last seen of the node: " + seen.What
	}
	r.Attempt, r.Deadline, r.WakeAt, r.WaitingFor = 0, time.Time{}, time.Time{}, ""
	for i := range r.Steps {
		if r.Steps[i].Outcome == store.Running {
			r.Steps[i].Outcome, r.Steps[i].Ended = store.Aborted, time.Now()
		}
	}
	if w := c.workflows[r.Workflow]; w != nil && len(w.OnFailure) > 0 {
		r.Step = w.OnFailure[0].Name
	}
}

// EndRun ends a node's run, if it has one, on the spot. The caller saves the
// node and tells the conductor.
func EndRun(tx *store.Tx, n *store.Node, o store.Outcome, why string) error {
	if n.Run == 0 {
		return nil
	}
	r, err := store.Runs.Get(tx, store.RunKey(n.Run))
	if errors.Is(err, store.ErrNotFound) {
		n.Run, n.Reservation, n.TargetPowerState = 0, nil, ""
		return nil
	}
	if err != nil {
		return err
	}
	r.Outcome, r.Error, r.Ended, r.WaitingFor, r.Deadline, r.Ramdisk = o, why, time.Now(), "", time.Time{}, nil
	for i := range r.Steps {
		if r.Steps[i].Outcome == store.Running {
			r.Steps[i].Outcome, r.Steps[i].Ended = o, r.Ended
		}
	}
	n.Run, n.Reservation, n.TargetPowerState = 0, nil, ""
	return store.Runs.Put(tx, r)
}

// tidies says whether a node's run is in the steps that tidy up.
func (c *Conductor) tidies(node string) (yes bool) {
	_ = c.db.View(func(tx *store.Tx) error {
		n, err := findNode(tx, node)
		if err != nil || n.Run == 0 {
			return err
		}
		r, err := store.Runs.Get(tx, store.RunKey(n.Run))
		yes = err == nil && r.Ending != ""
		return err
	})
	return yes
}
