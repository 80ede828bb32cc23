package conductor

import (
	"context"
	"sync"
	"time"
)

// A queue hands nodes to workers. A node is never with two workers: one that
// is added while it is worked on comes again afterwards.
type queue struct {
	mu     sync.Mutex
	ready  []string
	state  map[string]queued
	signal chan struct{} // holds one when there is something new
}

type queued int

const (
	inLine queued = iota + 1
	inWork
	inWorkAndLine
)

func newQueue() *queue {
	return &queue{state: map[string]queued{}, signal: make(chan struct{}, 1)}
}

// add puts a node in line, unless it stands there already.
func (q *queue) add(node string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch q.state[node] {
	case 0:
		q.state[node] = inLine
		q.ready = append(q.ready, node)
	case inWork:
		q.state[node] = inWorkAndLine
	case inLine, inWorkAndLine:
		return
	}
	q.ring()
}

func (q *queue) ring() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

func (q *queue) next() (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ready) == 0 {
		return "", false
	}
	node := q.ready[0]
	q.ready = q.ready[1:]
	q.state[node] = inWork
	return node, true
}

func (q *queue) done(node string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state[node] == inWorkAndLine {
		q.state[node] = inLine
		q.ready = append(q.ready, node)
		q.ring()
		return
	}
	delete(q.state, node)
}

// run has up to workers goroutines call work for the nodes in line, beside
// those that have lost their patience, until ctx ends and all have returned.
func (q *queue) run(ctx context.Context, workers int, work func(context.Context, string)) {
	slots := make(chan struct{}, workers) // holds one for each worker at work
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		node, ok := q.wait(ctx)
		if !ok {
			return
		}
		wg.Go(func() {
			defer elastic(slots)()
			defer q.done(node)
			work(ctx, node)
		})
	}
}

// patience is how long a worker may be at work before another takes its place:
// a step that takes longer waits for something outside, a controller that
// hangs perhaps, and those behind it need not wait with it.
const patience = 200 * time.Millisecond

// elastic gives the caller's place away when it has been at work for longer
// than a worker's patience; what it returns is called at the end of the work.
func elastic(slots chan struct{}) (end func()) {
	var once sync.Once
	free := func() { once.Do(func() { <-slots }) }
	t := time.AfterFunc(patience, free)
	return func() {
		t.Stop()
		free()
	}
}

// wait returns the next node in line, or false when ctx ends.
func (q *queue) wait(ctx context.Context) (string, bool) {
	for ctx.Err() == nil {
		if node, ok := q.next(); ok {
			return node, true
		}
		select {
		case <-q.signal:
		case <-ctx.Done():
		}
	}
	return "", false
}
