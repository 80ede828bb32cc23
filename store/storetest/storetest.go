// Package storetest opens stores for tests.
package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"bessemer/store"
)

// Open opens a new store in a temporary directory. When the test ends the
// store is checked and closed, and its file checked again.
func Open(t testing.TB) *store.DB {
	t.Helper()
	return OpenDir(t, t.TempDir())
}

// OpenDir is Open for the store in dir. A test may close it earlier itself.
func OpenDir(t testing.TB, dir string) *store.DB {
	t.Helper()
	db, err := store.Open(dir, store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if problems, err := db.Check(ctx); !errors.Is(err, store.ErrClosed) {
			report(t, problems, err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
		problems, err := store.CheckFile(ctx, dir)
		if errors.Is(err, store.ErrLocked) {
			return // the test has opened it again, and that one will be checked
		}
		report(t, problems, err)
	})
	return db
}

func report(t testing.TB, problems []store.Problem, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("check store: %v", err)
	}
	for _, p := range problems {
		t.Errorf("check store: %s", p)
	}
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
	if m.Trace == "" {
		m.Trace = s.Trace
	}
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
