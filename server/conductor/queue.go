package conductor

import (
	"context"
	"sync"
)

// A queue hands nodes to workers. A node is never with two workers: one that
// is added while it is worked on comes again afterwards.
type queue struct {
	mu     sync.Mutex
	ready  []string
	state  map[string]queued
	signal chan struct{} // holds one when there is something new
	slots  chan struct{} // holds one for each worker at work
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

// run has up to workers goroutines call work for the nodes in line, until ctx
// ends and they have returned.
func (q *queue) run(ctx context.Context, workers int, work func(context.Context, string)) {
	q.mu.Lock()
	q.slots = make(chan struct{}, workers)
	slots := q.slots
	q.mu.Unlock()
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
			defer func() { <-slots }()
			defer q.done(node)
			work(ctx, node)
		})
	}
}

// aside lets another worker take the caller's place while it waits long for
// something outside; the function returned ends that.
func (q *queue) aside() (back func()) {
	q.mu.Lock()
	slots := q.slots
	q.mu.Unlock()
	<-slots
	return func() { slots <- struct{}{} }
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
