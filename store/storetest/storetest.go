// Package storetest opens stores for tests.
package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"bessemer/store"
)

// Open opens a new store in a temporary directory and closes it when the test
// ends.
func Open(t testing.TB) *store.DB {
	t.Helper()
	db, err := store.Open(t.TempDir(), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// A Recorder keeps messages in memory.
type Recorder struct {
	mu       sync.Mutex
	messages []store.Message
}

// Record implements [store.Recorder].
func (r *Recorder) Record(ctx context.Context, m store.Message) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := store.ScopeFrom(ctx)
	if m.Node == "" {
		m.Node = s.Node
	}
	if m.Run == 0 {
		m.Run = s.Run
	}
	if m.Step == "" {
		m.Step = s.Step
	}
	m.Time = time.Now()
	m.Seq = uint64(len(r.messages) + 1)
	r.messages = append(r.messages, m)
	return m.Seq
}

// Messages returns what was recorded so far.
func (r *Recorder) Messages() []store.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]store.Message(nil), r.messages...)
}
