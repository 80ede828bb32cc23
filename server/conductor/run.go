package conductor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"bessemer/store"
)

// advance runs the steps of a node's run until it ends or must wait. The
// queue calls it, for a node never twice at once.
func (c *Conductor) advance(ctx context.Context, node string) {
	for ctx.Err() == nil {
		again, err := c.once(ctx, node)
		if err != nil && ctx.Err() == nil {
			c.log.Error().Err(err).Str("node", node).Msg("run cannot go on; trying again")
			c.wakeIn(node, c.config.Timeouts.StoreRetry)
			return
		}
		if !again {
			return
		}
	}
}

// once runs one step of a node's run and saves what came of it. again says
// that the next one can be run at once. The errors it returns are the
// store's; a step's are in the journal.
func (c *Conductor) once(ctx context.Context, node string) (again bool, err error) {
	t, err := c.load(node)
	if err != nil {
		return false, err
	}
	if t == nil {
		c.forgetLive(node) // of a run whose end was reported as failed and is there all the same
		return false, nil
	}
	if t.step == nil {
		return false, c.failUnknown(ctx, t)
	}
	ctx, cancel := context.WithCancel(c.scope(ctx, t))
	defer cancel()
	t.live = c.live(t)
	if wait := time.Until(t.live.again); wait > 0 {
		c.wakeIn(node, wait) // heard from in the pause between two tries
		return false, nil
	}
	c.crash(t, "before")
	c.begin(ctx, t)
	c.hold(node, cancel)
	if why := c.goneAgent(t); why != "" {
		err = c.startAgain(ctx, t, why)
	} else {
		err = c.do(ctx, t)
	}
	c.release(node)
	c.crash(t, "done")
	return c.settle(ctx, t, err)
}

// goneAgent says why a step that needs the boot's agent can have it no more.
func (c *Conductor) goneAgent(t *Task) string {
	if !t.w.needsAgent(t.step.Name) {
		return ""
	}
	return c.looks.verdict(t.Node.UUID, t.Node.Agent.Token)
}

// crash tells of a point of a task's step, see Config.Crash.
func (c *Conductor) crash(t *Task, point string) {
	step := t.Run.Step
	if t.step != nil {
		step = t.step.Name
	}
	c.config.Crash(t.Run.Workflow+"/"+step, point)
}

// scope returns a context on which messages are the run's.
func (c *Conductor) scope(ctx context.Context, t *Task) context.Context {
	return store.WithScope(ctx, store.Scope{Trace: t.Run.Trace, Node: t.Node.UUID, Run: t.Run.ID, Step: t.Run.Step})
}

// load reads a node's run and what its step needs; nil when there is none.
func (c *Conductor) load(node string) (*Task, error) {
	t := &Task{c: c}
	err := c.db.View(func(tx *store.Tx) error {
		n, err := store.Nodes.Get(tx, node)
		if errors.Is(err, store.ErrNotFound) || err == nil && n.Run == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if t.Run, err = store.Runs.Get(tx, store.RunKey(n.Run)); err != nil {
			return err
		}
		if t.rev, err = store.Runs.Rev(tx, store.RunKey(n.Run)); err != nil {
			return err
		}
		t.Node = n
		for p, err := range store.Ports.Where(tx, "node_uuid", node) {
			if err != nil {
				return err
			}
			t.Ports = append(t.Ports, p)
		}
		return nil
	})
	if err != nil || t.Node == nil {
		return nil, err
	}
	t.was = t.Run.Outcome
	if t.w = c.workflows[t.Run.Workflow]; t.w != nil {
		t.step, t.tidying = t.w.step(t.Run.Step)
	}
	return t, nil
}

// do calls the step. A panic in it is an error of it, with the stack in the
// run.
func (c *Conductor) do(ctx context.Context, t *Task) (err error) {
	defer func() {
		if v := recover(); v != nil {
			t.Run.Stack = t.redactStack(string(debug.Stack()))
			err = final(fmt.Errorf("a fault of the appliance (%v); please report it with the stack in run %d", v, t.Run.ID))
		}
	}()
	limit := c.config.Timeouts.Step
	step, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = t.step.Do(step, t)
	if err != nil && step.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("not finished within %v: %w", limit, err)
	}
	return err
}

// settle saves what came of a step.
func (c *Conductor) settle(ctx context.Context, t *Task, err error) (again bool, _ error) {
	if ctx.Err() != nil { // shutdown: the step runs again; abort: the run is read anew
		return true, nil
	}
	var p *pauseError
	var l *lineError
	var b *backError
	var f finalError
	switch {
	case errors.Is(err, errStale):
		return true, nil
	case t.tidying:
		return true, c.tidied(ctx, t, err)
	case err == nil:
		return true, c.next(ctx, t, t.w.after(t.step.Name))
	case errors.Is(err, errDone):
		return true, c.next(ctx, t, "")
	case errors.Is(err, errAgain):
		return true, ignoreStale(c.save(ctx, t, func(r *store.Run) { r.Attempt, r.Deadline = 0, time.Time{} }))
	case errors.As(err, &b):
		return true, c.next(ctx, t, b.step)
	case errors.As(err, &p):
		return c.paused(ctx, t, p)
	case errors.As(err, &l):
		return c.linedUp(ctx, t, l)
	case !errors.As(err, &f) && errors.Is(err, errAway) && t.step.Within != nil:
		c.suspect(t.Node.UUID, "")
		return c.paused(ctx, t, &pauseError{what: "the agent to answer (" + t.redact(err.Error()) + ")", poll: 2 * time.Second})
	}
	return c.failed(ctx, t, err)
}

// paused saves what the run is waiting for, and when it will be looked at
// again; or fails the step when it has waited long enough.
func (c *Conductor) paused(ctx context.Context, t *Task, p *pauseError) (again bool, _ error) {
	if t.step.Within == nil {
		return c.failed(ctx, t, final(fmt.Errorf("%s, which this step may not do; please report this", p)))
	}
	if t.Run.Deadline.IsZero() || t.live.until.IsZero() {
		t.live.until = time.Now().Add(t.within())
		t.Run.Deadline = t.live.until
	}
	left := time.Until(t.live.until)
	if left <= 0 {
		return c.failed(ctx, t, final(c.timedOut(t, p)))
	}
	if p.poll > 0 {
		left = min(left, p.poll)
	}
	changed := t.Run.WaitingFor != p.what || len(t.changes)+len(t.writes) > 0 || t.Run.Progress != nil
	t.Run.WaitingFor, t.Run.WakeAt = p.what, time.Now().Add(left)
	if changed {
		t.Change(func(n *store.Node) { t.w.enter(n, t.w.Waiting) })
		if err := c.save(ctx, t, nil); err != nil {
			return errors.Is(err, errStale), ignoreStale(err)
		}
	}
	c.wakeIn(t.Node.UUID, left)
	return false, nil
}

// linedUp saves that the run stands in line. No time limits that: who gives
// back a place wakes the next, and places are not held for ever.
func (c *Conductor) linedUp(ctx context.Context, t *Task, l *lineError) (again bool, _ error) {
	text := l.a.waiting(t.Node.UUID)
	if text == "" || t.Run.WaitingFor == text {
		return false, nil // it has a place by now, and was woken; or nothing is new
	}
	t.Run.WaitingFor, t.Run.WakeAt, t.Run.Deadline = text, time.Time{}, time.Time{}
	t.Change(func(n *store.Node) { t.w.enter(n, t.w.Waiting) })
	err := c.save(ctx, t, nil)
	return errors.Is(err, errStale), ignoreStale(err)
}

// timedOut says what a step has waited for in vain, and what was seen last.
func (c *Conductor) timedOut(t *Task, p *pauseError) error {
	return fmt.Errorf("no sign of %s within %v; %s", p.what, t.within(), c.lastSeen(t))
}

// failed lets the step be tried again after a while, or ends the run's way to
// its goal.
func (c *Conductor) failed(ctx context.Context, t *Task, err error) (again bool, _ error) {
	c.endStep(ctx, t, store.Failed, err)
	var f finalError
	if t.Run.Attempt+1 < t.step.Tries && !errors.As(err, &f) {
		wait := c.config.Timeouts.Backoff << t.Run.Attempt
		t.live.again = time.Now().Add(wait)
		t.Run.WakeAt = t.live.again
		t.Run.WaitingFor = fmt.Sprintf("another try, after: %s", t.redact(err.Error()))
		if err := c.save(ctx, t, func(r *store.Run) { r.Attempt++ }); err != nil {
			return errors.Is(err, errStale), ignoreStale(err)
		}
		c.wakeIn(t.Node.UUID, wait)
		return false, nil
	}
	why := t.redact(t.step.Name + ": " + err.Error())
	t.Run.Error, t.Run.Ending = why, store.Failed
	c.log.Warn().Str("node", t.Node.UUID).Uint64("run", t.Run.ID).Str("workflow", t.w.Name).Str("error", why).Msg("run failed")
	first := ""
	if len(t.w.OnFailure) > 0 {
		first = t.w.OnFailure[0].Name
	}
	t.keep("failed_step", t.step.Name)
	return true, c.next(ctx, t, first)
}

// tidied goes on to the next step that tidies up, whatever came of this one.
func (c *Conductor) tidied(ctx context.Context, t *Task, err error) error {
	if err != nil && !errors.Is(err, errDone) {
		c.endStep(ctx, t, store.Failed, err)
		c.log.Warn().Str("node", t.Node.UUID).Uint64("run", t.Run.ID).Str("step", t.step.Name).
			Str("error", t.redact(err.Error())).Msg("tidying up after a run")
	}
	return c.next(ctx, t, t.w.after(t.step.Name))
}

// failUnknown ends a run whose workflow or step this release does not know.
func (c *Conductor) failUnknown(ctx context.Context, t *Task) error {
	t.Run.Ending = store.Failed
	t.Run.Error = fmt.Sprintf("%s: this release has no such step in workflow %q, which another release began; ask for the state change again",
		t.Run.Step, t.Run.Workflow)
	if t.w == nil {
		t.w = &Workflow{Name: t.Run.Workflow, Failed: failedState(t.Node.ProvisionState)}
	}
	return ignoreStale(c.finish(c.scope(ctx, t), t))
}

// failedState returns where a failure leads to from a state.
func failedState(s store.ProvisionState) store.ProvisionState {
	if next, ok := RuleOf(s).Next["fail"]; ok {
		return next
	}
	return s
}

func ignoreStale(err error) error {
	if errors.Is(err, errStale) {
		return nil
	}
	return err
}
