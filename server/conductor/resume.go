package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bessemer/store"
)

// resume prepares what the last process left: unfinished runs are put in
// line, locks without a run are cleared, and nodes that no run will bring out
// of a busy state are sent to its failed state. Idle nodes are not touched.
// All is found in one transaction, since requests may come in already.
func (c *Conductor) resume(ctx context.Context) error {
	var open []*store.Run
	err := c.db.Update(func(tx *store.Tx) (err error) {
		if open, err = c.openRuns(tx); err != nil {
			return err
		}
		return c.clearLocks(tx)
	})
	if err != nil {
		return err
	}
	c.admitAgain(open)
	for _, r := range open {
		c.config.Crash(r.Workflow+"/"+r.Step, "resume")
		c.db.Record(ctx, store.Message{
			Trace: r.Trace, Node: r.Node, Run: r.ID, Step: r.Step,
			From: store.Conductor, To: store.Conductor, Kind: store.Divider, Label: store.LabelRestarted,
		})
		c.recallSightings(r)
		c.queue.add(r.Node)
	}
	if len(open) > 0 {
		c.log.Info().Int("runs", len(open)).Msg("going on with unfinished runs")
	}
	return nil
}

// openRuns returns the unfinished runs that an earlier process has left, and
// ends those that are no node's: the node was deleted.
func (c *Conductor) openRuns(tx *store.Tx) (open []*store.Run, err error) {
	var lost []*store.Run
	for r, err := range store.Runs.Where(tx, "open", "yes") {
		if err != nil {
			return nil, err
		}
		n, err := store.Nodes.Get(tx, r.Node)
		switch {
		case err == nil && n.Run == r.ID:
			if !c.ours(n) {
				open = append(open, r)
			}
		case err == nil || errors.Is(err, store.ErrNotFound):
			lost = append(lost, r)
		default:
			return nil, err
		}
	}
	for _, r := range lost {
		r.Outcome, r.Ended, r.Error = store.Aborted, time.Now(), "the node has gone, or another run has taken over"
		if err := store.Runs.Put(tx, r); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// ours says whether a node's lock was taken by this process.
func (c *Conductor) ours(n *store.Node) bool {
	return n.Reservation != nil && n.Reservation.Process == c.process
}

// clearLocks frees nodes that are locked, or in a busy state, without a run.
// There is one process per store, so whoever else held them is dead.
func (c *Conductor) clearLocks(tx *store.Tx) error {
	var stuck []*store.Node
	for n, err := range store.Nodes.All(tx) {
		if err != nil {
			return err
		}
		running, err := isOpen(tx, n.Run)
		if err != nil {
			return err
		}
		if !running && !c.ours(n) && (n.Run != 0 || n.Reservation != nil || isTransient(n.ProvisionState)) {
			stuck = append(stuck, n)
		}
	}
	for _, n := range stuck {
		n.Run, n.Reservation, n.TargetPowerState = 0, nil, ""
		if isTransient(n.ProvisionState) {
			n.LastError = fmt.Sprintf("the appliance started and found the node %s without a run; ask for the state change again", n.ProvisionState)
			n.ProvisionState, n.ProvisionUpdatedAt = failedState(n.ProvisionState), time.Now()
			c.log.Warn().Str("node", n.UUID).Str("state", string(n.ProvisionState)).Msg(n.LastError)
		}
		if err := store.Nodes.Put(tx, n); err != nil {
			return err
		}
	}
	return nil
}

// isOpen reports whether a run is there and goes on.
func isOpen(tx *store.Tx, id uint64) (bool, error) {
	if id == 0 {
		return false, nil
	}
	r, err := store.Runs.Get(tx, store.RunKey(id))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && r.Outcome == store.Running, err
}

// isTransient reports whether a run must bring a node out of state s.
func isTransient(s store.ProvisionState) bool {
	k := RuleOf(s).Kind
	return k == Busy || k == Wait
}
