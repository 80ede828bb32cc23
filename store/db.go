package store

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// Options of [Open].
type Options struct {
	NoSync bool // do not wait for the disk; for tests only
}

// DB is the state store.
type DB struct {
	space space
	dir   string

	mu      sync.Mutex
	seq     uint64
	pending []Message
	watch   map[chan struct{}]struct{}
}

// Open opens the store in the data directory dir, creating it if need be.
func Open(dir string, o Options) (*DB, error) {
	s, err := openBolt(filepath.Join(dir, "bessemer.db"), o.NoSync)
	if err != nil {
		return nil, err
	}
	db := &DB{space: s, dir: dir, watch: map[chan struct{}]struct{}{}}
	err = db.View(func(tx *Tx) error {
		for m, err := range Messages.All(tx) {
			if err != nil {
				return err
			}
			db.seq = m.Seq
		}
		return nil
	})
	return db, err
}

// Close flushes and closes the store.
func (db *DB) Close() error {
	err := db.Flush()
	if cerr := db.space.Close(); err == nil {
		err = cerr
	}
	return err
}

// Update runs fn in one read-write transaction. fn must do no I/O of its own.
func (db *DB) Update(fn func(*Tx) error) error {
	return db.space.Update(func(tx spaceTx) error { return fn(&Tx{tx: tx, db: db}) })
}

// Batch is Update for many callers at once: one commit carries the writes of
// all that ask within a few milliseconds. fn may run twice, so it must not
// depend on having run before.
func (db *DB) Batch(fn func(*Tx) error) error {
	return db.space.Batch(func(tx spaceTx) error { return fn(&Tx{tx: tx, db: db}) })
}

// View runs fn in one read-only transaction.
func (db *DB) View(fn func(*Tx) error) error {
	return db.space.View(func(tx spaceTx) error { return fn(&Tx{tx: tx, db: db}) })
}

// A Tx is a transaction.
type Tx struct {
	tx spaceTx
	db *DB
}

func (tx *Tx) put(table, key string, k, plain []byte) error { return tx.tx.Put(k, plain) }
func (tx *Tx) delete(table, key string, k []byte) error     { return tx.tx.Delete(k) }
func (tx *Tx) open(k, raw []byte) ([]byte, error)           { return raw, nil }

// NextID returns the next number of a named sequence, from 1 on. Call it in
// Update only: Batch may run its function twice.
func (tx *Tx) NextID(name string) (uint64, error) {
	k := []byte("s/" + name)
	var n uint64
	if raw := tx.tx.Get(k); raw != nil {
		if _, err := fmt.Sscanf(string(raw), "%d", &n); err != nil {
			return 0, fmt.Errorf("sequence %s: %w", name, ErrCorrupt)
		}
	}
	n++
	return n, tx.tx.Put(k, fmt.Appendf(nil, "%d", n))
}

// Record implements [Recorder].
func (db *DB) Record(ctx context.Context, m Message) uint64 {
	s := ScopeFrom(ctx)
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
	if m.Time.IsZero() {
		m.Time = time.Now()
	}
	db.mu.Lock()
	db.seq++
	m.Seq = db.seq
	db.pending = append(db.pending, m)
	for c := range db.watch {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	db.mu.Unlock()
	return m.Seq
}

// Flush writes the messages recorded so far; the conductor calls it before it
// saves a step.
func (db *DB) Flush() error {
	db.mu.Lock()
	ms := db.pending
	db.pending = nil
	db.mu.Unlock()
	if len(ms) == 0 {
		return nil
	}
	return db.Batch(func(tx *Tx) error {
		for i := range ms {
			if err := Messages.Put(tx, &ms[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// MessagesAfter returns up to limit messages with a number above seq, those
// not yet written included, that satisfy keep (nil: all).
func (db *DB) MessagesAfter(seq uint64, limit int, keep func(*Message) bool) ([]Message, error) {
	if err := db.Flush(); err != nil {
		return nil, err
	}
	var ms []Message
	err := db.View(func(tx *Tx) error {
		for m, err := range Messages.From(tx, fmt.Sprintf("%016x", seq+1)) {
			if err != nil {
				return err
			}
			if keep == nil || keep(m) {
				ms = append(ms, *m)
			}
			if len(ms) == limit {
				break
			}
		}
		return nil
	})
	return ms, err
}

// Notify returns a channel that receives after messages were recorded, until
// ctx ends. Use it with MessagesAfter to follow a trace without gaps.
func (db *DB) Notify(ctx context.Context) <-chan struct{} {
	c := make(chan struct{}, 1)
	db.mu.Lock()
	db.watch[c] = struct{}{}
	db.mu.Unlock()
	context.AfterFunc(ctx, func() {
		db.mu.Lock()
		delete(db.watch, c)
		db.mu.Unlock()
	})
	return c
}
