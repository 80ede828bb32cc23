package conductor

import (
	"context"
	"errors"
	"slices"
	"time"

	"bessemer/store"
)

// A StepFunc brings a node to what its step names. It may be called again for
// work that is already done.
type StepFunc func(context.Context, *Task) error

// A Step is one line of a workflow.
type Step struct {
	Name   string // stable: it is stored, and shown to users
	Do     StepFunc
	Ironic *store.IronicStep // what clients see in deploy_step or clean_step meanwhile
	Within limit             // how long the step may pause; nil for not at all
	Tries  int               // attempts before the run fails; 0 for one
}

// A Workflow is a list of steps, and the provision states that it moves a
// node through.
type Workflow struct {
	Name             string
	Running, Waiting store.ProvisionState // "" leaves the state as it is
	Target           store.ProvisionState // target_provision_state meanwhile
	Done             func(*store.Node) store.ProvisionState
	Failed           store.ProvisionState
	Steps            []Step
	// OnFailure tidies up after a failure or an abort. Its steps do not
	// pause, are tried once, and what goes wrong in them ends nothing.
	OnFailure []Step
	// Then is the workflow that takes over in the same transaction when this
	// one is done, "" for none.
	Then string
	// Fault, if set, puts the node into maintenance with this fault when a
	// step from FaultFrom on has failed.
	Fault, FaultFrom string
}

// A limit picks one of the conductor's timeouts.
type limit func(*Timeouts) time.Duration

func deployCallback(t *Timeouts) time.Duration { return t.DeployCallback }
func cleanCallback(t *Timeouts) time.Duration  { return t.CleanCallback }
func agentCommand(t *Timeouts) time.Duration   { return t.AgentCommand }

// always is the Done of a workflow with one outcome.
func always(s store.ProvisionState) func(*store.Node) store.ProvisionState {
	return func(*store.Node) store.ProvisionState { return s }
}

// step finds a step by name; tidying says that it is one of OnFailure.
func (w *Workflow) step(name string) (s *Step, tidying bool) {
	if i := slices.IndexFunc(w.Steps, func(s Step) bool { return s.Name == name }); i >= 0 {
		return &w.Steps[i], false
	}
	if i := slices.IndexFunc(w.OnFailure, func(s Step) bool { return s.Name == name }); i >= 0 {
		return &w.OnFailure[i], true
	}
	return nil, false
}

// after returns the name of the step after one in its list, "" at the end.
func (w *Workflow) after(name string) string {
	for _, list := range [][]Step{w.Steps, w.OnFailure} {
		i := slices.IndexFunc(list, func(s Step) bool { return s.Name == name })
		if i >= 0 && i+1 < len(list) {
			return list[i+1].Name
		}
	}
	return ""
}

// enter moves a node to a state of the workflow, unless it names none.
func (w *Workflow) enter(n *store.Node, s store.ProvisionState) {
	if s != "" {
		n.ProvisionState = s
	}
}

// ironicStep returns what clients see while a step runs: its own Ironic step,
// or that of the last one before it that has one.
func (w *Workflow) ironicStep(name string) (shown *store.IronicStep) {
	for i := range w.Steps {
		if w.Steps[i].Ironic != nil {
			shown = w.Steps[i].Ironic
		}
		if w.Steps[i].Name == name {
			return shown
		}
	}
	return nil
}

// needsAgent reports whether a step needs the agent of the boot that the run
// has begun: those from the agent's first heartbeat to the last that it is
// asked for.
func (w *Workflow) needsAgent(name string) bool {
	return name != "await-agent" && w.comesAfter(name, "await-agent") && w.comesAfter("sync-disks", name)
}

// comesAfter reports whether step a is at or after step b.
func (w *Workflow) comesAfter(a, b string) bool {
	at := func(name string) int { return slices.IndexFunc(w.Steps, func(s Step) bool { return s.Name == name }) }
	return at(b) >= 0 && at(a) >= at(b)
}

// A pauseError is how a step says that it cannot go on yet.
type pauseError struct {
	what string
	poll time.Duration
}

func (e *pauseError) Error() string { return "waiting for " + e.what }

// pause makes the engine call the step again when its node is heard from, at
// the latest after poll (0: only the deadline), and show meanwhile what the
// run is waiting for.
func pause(what string, poll time.Duration) error { return &pauseError{what, poll} }

// A backError sends the run back to an earlier step.
type backError struct{ step string }

func (e *backError) Error() string { return "going back to " + e.step }

func back(step string) error { return &backError{step} }

var (
	// errAgain saves the run and calls the same step again.
	errAgain = errors.New("step goes on")
	// errDone ends the run well before its last step.
	errDone = errors.New("nothing left to do")
	// errStale says that the run was changed by someone else meanwhile: an
	// abort, or another run.
	errStale = errors.New("run has been ended or aborted meanwhile")
	// errAway says that an agent does not answer; it may be starting.
	errAway = errors.New("agent does not answer")
)

// A finalError is a failure that another try would not mend.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// final keeps the engine from trying again.
func final(err error) error { return finalError{err} }
