package api

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"

	"bessemer/store"
)

// A runCounter counts the runs that have ended since the appliance was
// started. It reads each run when it is new and when it has ended, never all
// that are kept.
type runCounter struct {
	mu    sync.Mutex
	last  uint64 // the newest run that was looked at
	open  map[uint64]bool
	ended map[string]uint64 // by Prometheus labels
}

// begin takes the runs that there are for history, but for the open ones.
func (r *runCounter) begin(tx *store.Tx) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open, r.ended = map[uint64]bool{}, map[string]uint64{}
	for v, err := range store.Runs.Back(tx, "") {
		if err != nil {
			return err
		}
		r.last = v.ID
		break
	}
	return r.look(store.Runs.Where(tx, "open", "yes"))
}

// count brings the numbers up to date and returns a copy.
func (r *runCounter) count(tx *store.Tx) (map[string]uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.open {
		v, err := store.Runs.Get(tx, store.RunKey(id))
		switch {
		case errors.Is(err, store.ErrNotFound):
			delete(r.open, id)
		case err != nil:
			return nil, err
		case v.Outcome != store.Running:
			delete(r.open, id)
			r.ended[runLabels(v)]++
		}
	}
	err := r.look(store.Runs.From(tx, store.RunKey(r.last+1)))
	return maps.Clone(r.ended), err
}

func (r *runCounter) look(runs iter.Seq2[*store.Run, error]) error {
	for v, err := range runs {
		if err != nil {
			return err
		}
		r.last = max(r.last, v.ID)
		if v.Outcome == store.Running {
			r.open[v.ID] = true
		} else {
			r.ended[runLabels(v)]++
		}
	}
	return nil
}

func runLabels(r *store.Run) string {
	return fmt.Sprintf("workflow=%q,outcome=%q", r.Workflow, r.Outcome)
}
