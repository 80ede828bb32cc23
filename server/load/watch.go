package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"bessemer/server/client"
)

// look is the time between two looks at the nodes.
const look = 500 * time.Millisecond

// patience is how long an appliance may be away in a run; it may be restarting.
const patience = 30 * time.Second

// A watch follows nodes on their way to a goal.
type watch struct {
	*run
	goal

	mu    sync.Mutex
	asked map[string]time.Time
	over  map[string]bool
	took  []time.Duration
	errs  []error
}

// note takes up that a node was asked for the goal, or could not be.
func (w *watch) note(id string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over == nil {
		w.over = map[string]bool{}
	}
	if err != nil {
		w.over[id] = true
		w.errs = append(w.errs, err)
		return
	}
	w.asked[id] = time.Now()
}

// until looks at the nodes' states until all are at rest, and calls half, once,
// in the middle.
func (w *watch) until(ctx context.Context, total int, asking <-chan []error, half func(context.Context) ([]Result, error)) (more []Result, err error) {
	sent := false
	var away time.Time
	for {
		select {
		case <-asking:
			sent = true
		case <-ctx.Done():
			return more, ctx.Err()
		case <-time.After(look):
		}
		all, err := w.states(ctx)
		switch {
		case err == nil:
			away = time.Time{}
		case !isAway(err):
			return more, fmt.Errorf("read the states of the nodes: %w", err)
		case away.IsZero():
			away = time.Now()
		case time.Since(away) > patience:
			return more, fmt.Errorf("read the states of the nodes for %v: %w", patience, err)
		}
		n := w.take(all, sent)
		w.Progress(w.phase, n, total)
		if half != nil && n >= total/2 {
			res, err := half(ctx)
			if more, half = append(more, res...), nil; err != nil {
				return more, err
			}
		}
		if sent && n == total {
			return more, nil
		}
	}
}

// isAway says whether an error is that there was no answer, or only a part of
// one.
func isAway(err error) bool {
	_, refused := errors.AsType[*client.Error](err)
	return err != nil && !refused
}

// take notes the nodes that have come to rest, and returns how many have so
// far. One that rests where it was has not been moved yet, unless all requests
// were answered.
func (w *watch) take(all map[string]nodeState, sent bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, begun := range w.asked {
		n, ok := all[id]
		if !ok || w.over[id] || n.Target != nil || !resting(n.State) {
			continue
		}
		if n.State == w.state {
			w.over[id] = true
			w.took = append(w.took, max(0, n.Since.Sub(begun)))
			continue
		}
		if !sent {
			continue // the request may be on its way
		}
		w.over[id] = true
		w.errs = append(w.errs, fmt.Errorf("node %s is %q instead of %q: %s", id, n.State, w.state, text(n.LastError)))
	}
	return len(w.over)
}

func text(s *string) string {
	if s == nil {
		return "no error is told"
	}
	return *s
}
