package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bessemer/store"
)

// start begins a run of w on n in the caller's transaction: the journal, the
// lock, and the node's new state. The caller saves n.
func (c *Conductor) start(tx *store.Tx, n *store.Node, w *Workflow, trace string, args map[string]any) (*store.Run, error) {
	if n.Run != 0 || n.Reservation != nil {
		return nil, locked(n)
	}
	id, err := tx.NextID("runs")
	if err != nil {
		return nil, err
	}
	if trace == "" {
		trace = store.NewTrace()
	}
	now := time.Now()
	r := &store.Run{
		ID: id, Trace: trace, Workflow: w.Name, Node: n.UUID, Args: args, Data: map[string]any{},
		Step: w.Steps[0].Name, Started: now, Outcome: store.Running,
	}
	n.Run = id
	n.Reservation = &store.Reservation{Holder: c.config.Hostname, Why: w.Name, Since: now, Process: c.process}
	n.LastError, n.CleanStep, n.UpdatedAt = "", nil, now
	if w.Running != "" {
		n.ProvisionState, n.TargetProvisionState, n.ProvisionUpdatedAt = w.Running, w.Target, now
		n.DeployStep = w.ironicStep(r.Step)
	}
	return r, store.Runs.Put(tx, r)
}

// startRun begins a run of w on the node that ident names, and draws the arrow
// by which the API has handed the request over. check is given the node as it
// is in the transaction, and may refuse or change it and write more.
func (c *Conductor) startRun(ctx context.Context, ident string, w *Workflow, label string, args map[string]any,
	check func(*store.Tx, *store.Node) error,
) (*store.Run, error) {
	var r *store.Run
	var saved *store.Node
	var rev uint64
	var from, to store.ProvisionState
	err := c.db.Batch(func(tx *store.Tx) error {
		n, err := findNode(tx, ident)
		if err != nil {
			return err
		}
		from = n.ProvisionState
		if err := check(tx, n); err != nil {
			return err
		}
		if r, err = c.start(tx, n, w, store.ScopeFrom(ctx).Trace, args); err != nil {
			return err
		}
		saved, to = n, n.ProvisionState
		if err := store.Nodes.Put(tx, n); err != nil {
			return err
		}
		if rev, err = store.Nodes.Rev(tx, n.UUID); err != nil {
			return err
		}
		// Here, so that it comes before whatever a worker does for the run.
		ctx = store.WithScope(ctx, store.Scope{Trace: r.Trace, Node: r.Node, Run: r.ID})
		c.db.Record(ctx, store.Message{From: store.API, To: store.Conductor, Kind: store.Cast, Label: label})
		return nil
	})
	if err != nil {
		if r != nil { // the disk failed; it may have taken the run all the same
			c.refresh(r.Node)
			c.queue.add(r.Node)
		}
		return nil, err
	}
	c.log.Info().Str("node", r.Node).Uint64("run", r.ID).Str("workflow", w.Name).Msg("run begun")
	c.stateChanged(ctx, r.Node, from, to)
	c.follow(saved, r, rev)
	c.queue.add(r.Node)
	return r, nil
}

// findNode returns the node with a UUID or name, or ErrNotFound in the words
// of a client.
func findNode(tx *store.Tx, ident string) (*store.Node, error) {
	n, err := store.FindNode(tx, ident)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%w: node %s could not be found", ErrNotFound, clip(ident, 100))
	}
	return n, err
}

// node reads the node with a UUID or name.
func (c *Conductor) node(ident string) (n *store.Node, err error) {
	err = c.db.View(func(tx *store.Tx) error {
		n, err = findNode(tx, ident)
		return err
	})
	return n, err
}

// locked says who holds a node, why, and since when.
func locked(n *store.Node) error {
	r := n.Reservation
	if r == nil {
		return fmt.Errorf("%w: node %s is locked by run %d; try again when it has ended", ErrLocked, n.UUID, n.Run)
	}
	return fmt.Errorf("%w: node %s is locked by host %s, for %s since %s; try again when that has ended",
		ErrLocked, n.UUID, r.Holder, r.Why, r.Since.UTC().Format(time.RFC3339))
}
