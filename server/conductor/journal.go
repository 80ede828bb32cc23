package conductor

import (
	"context"
	"errors"
	"slices"
	"time"

	"bessemer/store"
)

// begin notes in the run that its step has begun. It is saved with whatever
// the step saves first.
func (c *Conductor) begin(ctx context.Context, t *Task) {
	i := slices.IndexFunc(t.Run.Steps, func(s store.RunStep) bool { return s.Name == t.step.Name })
	if i < 0 {
		t.Run.Steps = append(t.Run.Steps, store.RunStep{Name: t.step.Name})
		i = len(t.Run.Steps) - 1
	}
	s := &t.Run.Steps[i]
	if s.Outcome == store.Running && !s.Started.IsZero() { // it was waiting
		c.show(t, *s)
		return
	}
	s.Outcome, s.Error, s.Ended = store.Running, "", time.Time{}
	s.Started = time.Now()
	s.Attempts++
	c.show(t, *s)
	c.db.Record(ctx, store.Message{
		From: store.Conductor, To: store.Conductor, Kind: store.StepKind, Label: store.LabelStepBegun,
		Outcome: store.Running, Attempt: t.Run.Attempt, Detail: map[string]any{"step": t.step.Name, "workflow": t.w.Name},
	})
}

// endStep notes in the run how its step went.
func (c *Conductor) endStep(ctx context.Context, t *Task, o store.Outcome, err error) {
	i := slices.IndexFunc(t.Run.Steps, func(s store.RunStep) bool { return s.Name == t.step.Name })
	if i < 0 || t.Run.Steps[i].Outcome != store.Running {
		return
	}
	s := &t.Run.Steps[i]
	s.Outcome, s.Ended = o, time.Now()
	if err != nil {
		s.Error = t.redact(err.Error())
	}
	c.show(t, *s)
	c.db.Record(ctx, store.Message{
		From: store.Conductor, To: store.Conductor, Kind: store.StepKind, Label: store.LabelStepEnded,
		Outcome: o, Attempt: t.Run.Attempt, Error: s.Error, Dur: s.Ended.Sub(s.Started),
		Detail: map[string]any{"step": t.step.Name, "workflow": t.w.Name},
	})
}

// next saves the step as done and moves the run to another one; "" ends it.
func (c *Conductor) next(ctx context.Context, t *Task, step string) error {
	c.endStep(ctx, t, store.OK, nil)
	if step == "" {
		return ignoreStale(c.finish(ctx, t))
	}
	t.Change(func(n *store.Node) {
		if t.Run.Ending != store.Aborted { // which has its state already
			t.w.enter(n, t.w.Running)
		}
		n.DeployStep = t.w.ironicStep(step)
	})
	return ignoreStale(c.save(ctx, t, func(r *store.Run) {
		r.Step, r.Attempt, r.Deadline, r.WakeAt, r.WaitingFor, r.Progress = step, 0, time.Time{}, time.Time{}, "", nil
	}))
}

// save journals the run, its node and whatever else the step has written, in
// one transaction, after the messages that led there. It is errStale when
// the run is no longer as it was when the step began.
func (c *Conductor) save(ctx context.Context, t *Task, change func(*store.Run)) error {
	if change != nil {
		change(t.Run)
	}
	if _, err := c.commit(ctx, t, nil); err != nil {
		return err
	}
	c.crash(t, "saved")
	return nil
}

// commit is the transaction of save and finish; then, if any, is part of it.
// It returns the node's state.
func (c *Conductor) commit(ctx context.Context, t *Task, then func(*store.Tx, *store.Node) error) (to store.ProvisionState, err error) {
	var from store.ProvisionState
	var saved *store.Node
	var rev uint64
	err = c.db.Batch(func(tx *store.Tx) error {
		n, err := t.fresh(tx)
		if err != nil {
			return err
		}
		from = n.ProvisionState
		if err := t.apply(tx, n); err != nil {
			return err
		}
		if then != nil {
			if err := then(tx, n); err != nil {
				return err
			}
		}
		to, n.UpdatedAt, saved = n.ProvisionState, time.Now(), n
		if err := errors.Join(store.Runs.Replace(tx, t.stored(), t.Run), store.Nodes.Put(tx, n)); err != nil {
			return err
		}
		rev, err = store.Nodes.Rev(tx, n.UUID)
		return err
	})
	if err != nil {
		if !errors.Is(err, errStale) { // the disk failed; it may have taken this all the same
			c.refresh(t.Node.UUID)
		}
		return "", err
	}
	t.was, t.rev, t.changes, t.writes = t.Run.Outcome, t.rev+1, nil, nil
	c.stateChanged(ctx, t.Node.UUID, from, to)
	c.follow(saved, t.Run, rev)
	return to, nil
}

// fresh reads the run's node, and makes sure that the run is still the node's
// and stands where this task took it up.
func (t *Task) fresh(tx *store.Tx) (*store.Node, error) {
	n, err := store.Nodes.Get(tx, t.Node.UUID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errStale
	}
	if err != nil {
		return nil, err
	}
	rev, err := store.Runs.Rev(tx, store.RunKey(t.Run.ID))
	if err != nil {
		return nil, err
	}
	if n.Run != t.Run.ID || rev != t.rev {
		return nil, errStale
	}
	return n, nil
}

// stored is the run as it is in the store, as far as its indexes look at it.
func (t *Task) stored() *store.Run {
	r := *t.Run
	r.Outcome = t.was
	return &r
}

func (t *Task) apply(tx *store.Tx, n *store.Node) error {
	was := n.ProvisionState
	for _, fn := range t.changes {
		fn(n)
	}
	if n.ProvisionState != was {
		n.ProvisionUpdatedAt = time.Now()
	}
	for _, fn := range t.writes {
		if err := fn(tx); err != nil {
			return err
		}
	}
	return nil
}

// finish ends the run: state, target, lock and the workflow that follows, in
// one transaction.
func (c *Conductor) finish(ctx context.Context, t *Task) error {
	t.Run.Outcome, t.Run.Ended = store.OK, time.Now()
	if t.Run.Ending != "" {
		t.Run.Outcome = t.Run.Ending
	}
	t.Run.Step, t.Run.WaitingFor, t.Run.Deadline, t.Run.WakeAt = "", "", time.Time{}, time.Time{}
	t.Run.Progress, t.Run.Ramdisk = nil, nil
	t.Change(func(n *store.Node) { t.conclude(n) })
	to, err := c.commit(ctx, t, func(tx *store.Tx, n *store.Node) error {
		if t.w.Then == "" || t.Run.Outcome != store.OK {
			return nil
		}
		_, err := c.start(tx, n, c.workflows[t.w.Then], t.Run.Trace, nil)
		return err
	})
	if err != nil {
		return err
	}
	c.forgetLive(t.Node.UUID)
	c.log.Info().Str("node", t.Node.UUID).Uint64("run", t.Run.ID).Str("workflow", t.w.Name).
		Str("outcome", string(t.Run.Outcome)).Str("state", string(to)).Msg("run ended")
	c.crash(t, "ended")
	return nil
}

// conclude brings a node into the state in which the run leaves it.
func (t *Task) conclude(n *store.Node) {
	n.Run, n.Reservation, n.DeployStep, n.CleanStep, n.TargetPowerState = 0, nil, nil, nil, ""
	if t.Run.Outcome == store.OK {
		if t.w.Done != nil {
			n.ProvisionState = t.w.Done(n)
			n.TargetProvisionState = ""
		}
		return
	}
	n.LastError = t.Run.Error
	if t.w.Failed == "" {
		return
	}
	n.ProvisionState = t.w.Failed
	if RuleOf(t.w.Failed).Kind == Stable {
		n.TargetProvisionState = ""
	}
	failed, _ := t.Run.Data["failed_step"].(string)
	if t.w.Fault != "" && t.w.comesAfter(failed, t.w.FaultFrom) {
		n.Maintenance, n.Fault, n.MaintenanceReason = true, t.w.Fault, clip(t.Run.Error, 255)
	}
}

// stateChanged records a change of a node's provision state.
func (c *Conductor) stateChanged(ctx context.Context, node string, from, to store.ProvisionState) {
	if from == to {
		return
	}
	c.db.Record(ctx, store.Message{
		Node: node, From: store.Conductor, To: store.Conductor, Kind: store.State, Label: store.LabelProvisionState,
		Detail: map[string]any{"from": string(from), "to": string(to)},
	})
}
