package store

import (
	"fmt"
	"time"
)

// A Run is one execution of a workflow on a node: the journal from which the
// conductor goes on after a crash, at the step it was in.
type Run struct {
	ID       uint64         `json:"id"`
	Trace    string         `json:"trace"` // W3C trace id, 32 hex digits
	Workflow string         `json:"workflow"`
	Node     string         `json:"node"`
	Args     map[string]any `json:"args,omitempty"`
	// Data is what steps leave for later steps of the same run.
	Data map[string]any `json:"data,omitempty"`

	Step       string    `json:"step"`    // the step that runs next, by name
	Attempt    int       `json:"attempt"` // how often Step has failed
	Steps      []RunStep `json:"steps"`
	Deadline   time.Time `json:"deadline,omitzero"`     // when a waiting Step gives up
	WaitingFor string    `json:"waiting_for,omitempty"` // "" when not waiting
	WakeAt     time.Time `json:"wake_at,omitzero"`      // when a waiting Step wants to be called anyhow
	Progress   *Progress `json:"progress,omitempty"`
	// Ending is what the run ends as when the steps that tidy up are done:
	// failed or aborted. It is "" while the run goes for its goal.
	Ending Outcome `json:"ending,omitempty"`
	// Ramdisk is set while the node is to boot the ramdisk.
	Ramdisk *RamdiskBoot `json:"ramdisk,omitempty"`

	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Outcome Outcome   `json:"outcome"` // running until ended
	Error   string    `json:"error,omitempty"`
	Stack   string    `json:"stack,omitempty"` // of a step that panicked
}

// A RamdiskBoot is how a run has its node boot the ramdisk.
type RamdiskBoot struct {
	Token    string    `json:"token"`              // secret part of this boot's URLs; never to be shown
	Boots    int       `json:"boots"`              // how often the node was started for it
	BootedAt time.Time `json:"booted_at,omitzero"` // when it was started last; zero: not yet
}

// A RunStep is the record of one step of a run.
type RunStep struct {
	Name     string    `json:"name"`
	Outcome  Outcome   `json:"outcome"` // "" for not begun
	Attempts int       `json:"attempts,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Error    string    `json:"error,omitempty"`
}

// Outcome says how something went, or that it goes on.
type Outcome string

// Outcomes.
const (
	Running Outcome = "running"
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Aborted Outcome = "aborted"
	Skipped Outcome = "skipped"
)

// Progress is how far a long step has come. Sizes are bytes, Rate is bytes a
// second, ETA seconds; Total is 0 when it is not known.
type Progress struct {
	What  string    `json:"what"`
	Done  int64     `json:"done"`
	Total int64     `json:"total,omitempty"`
	Rate  float64   `json:"rate,omitempty"`
	ETA   float64   `json:"eta,omitempty"`
	At    time.Time `json:"at"`
}

// Runs is the table of runs, by ID.
var Runs = NewTable("runs", func(r *Run) string { return RunKey(r.ID) },
	Index("node", func(r *Run) []string { return []string{r.Node} }),
	Index("trace", func(r *Run) []string { return []string{r.Trace} }),
	Index("open", func(r *Run) []string {
		if r.Outcome == Running {
			return []string{"yes"}
		}
		return nil
	}),
)

// RunKey is the key of the run with the given ID; keys sort as IDs do.
func RunKey(id uint64) string { return fmt.Sprintf("%016x", id) }
