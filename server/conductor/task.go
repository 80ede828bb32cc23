package conductor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// A Task is what a step is handed: the node, its ports, the run, and ways to
// the participants.
type Task struct {
	Node  *store.Node // a copy; changed through Change
	Ports []*store.Port
	Run   *store.Run // Data, Progress and Ramdisk are the steps' to change

	c       *Conductor
	w       *Workflow
	step    *Step
	live    *liveStep
	tidying bool
	was     store.Outcome // of the run as it is stored
	rev     uint64        // the same
	changes []func(*store.Node)
	writes  []func(*store.Tx) error
}

// Change changes the node. The change is saved with the step.
func (t *Task) Change(fn func(*store.Node)) {
	fn(t.Node)
	t.changes = append(t.changes, fn)
}

// Write has fn run in the transaction that saves the step.
func (t *Task) Write(fn func(*store.Tx) error) { t.writes = append(t.writes, fn) }

// Checkpoint saves what the step has changed so far: the intent, before an
// act that must not be repeated blindly.
func (t *Task) Checkpoint(ctx context.Context) error {
	return t.c.save(ctx, t, nil)
}

// Note records a message of the conductor to itself.
func (t *Task) Note(ctx context.Context, label string) {
	t.c.db.Record(ctx, store.Message{From: store.Conductor, To: store.Conductor, Kind: store.Self, Label: label})
}

// BMC returns the client of the node's controller.
func (t *Task) BMC() (*bmc.Client, error) { return t.c.config.BMC.Client(t.Node) }

// Limits returns the conductor's timeouts.
func (t *Task) Limits() *Timeouts { return &t.c.config.Timeouts }

// text returns a string that an earlier step left, or "".
func (t *Task) text(key string) string {
	s, _ := t.Run.Data[key].(string)
	return s
}

// number returns a number that an earlier step left, or 0.
func (t *Task) number(key string) int {
	switch n := t.Run.Data[key].(type) {
	case int:
		return n
	case float64: // what JSON makes of it
		return int(n)
	}
	return 0
}

// keep leaves a value for later steps of the run.
func (t *Task) keep(key string, value any) {
	if t.Run.Data == nil {
		t.Run.Data = map[string]any{}
	}
	t.Run.Data[key] = value
}

// secrets are what must not show in an error or a message of this run.
func (t *Task) secrets() []string {
	var s []string
	if t.Run.Ramdisk != nil {
		s = append(s, t.Run.Ramdisk.Token)
	}
	return append(s, t.Node.Agent.Token)
}

// redact takes a run's secrets and line breaks out of a text, and bounds it.
func (t *Task) redact(s string) string {
	return clip(bmc.ScrubText(s, t.secrets()...), 2000)
}

// redactStack takes a run's secrets out of a stack trace, and bounds it.
func (t *Task) redactStack(s string) string {
	return bmc.ScrubText(s[:min(len(s), 16<<10)], t.secrets()...)
}

// clip makes one line of a text from outside, of at most n bytes.
func clip(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + " ..."
	}
	return strings.TrimSpace(s)
}

func ago(t time.Time) string {
	return fmt.Sprintf("%v ago", time.Since(t).Round(time.Second))
}
