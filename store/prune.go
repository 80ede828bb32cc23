package store

import (
	"context"
	"errors"
	"time"
)

// A Retention says what [DB.Prune] keeps. Zero values keep everything.
type Retention struct {
	Age       time.Duration // of finished runs, and of messages that belong to no run
	FailedAge time.Duration // of runs that failed or were aborted; those stay longer
	Runs      int           // finished runs of a node, failed ones and others counted apart
	Messages  int           // messages of a node (or of none) that belong to no run
}

// Pruned says what Prune removed.
type Pruned struct {
	Runs     int `json:"runs"`
	Messages int `json:"messages"`
}

// pruneChunk is how many records are looked at, and at most removed, in one
// transaction, so that others are not held up.
const pruneChunk = 1000

// Prune removes what r does not keep: finished runs, newest kept first, with
// their messages; and other messages. Runs that go on are never touched.
func (db *DB) Prune(ctx context.Context, r Retention) (Pruned, error) {
	if err := db.Flush(); err != nil {
		return Pruned{}, err
	}
	p := &pruner{
		db: db, r: r, now: time.Now(),
		kept: map[uint64]bool{}, gone: map[uint64]bool{}, runs: map[string]int{}, messages: map[string]int{},
	}
	if err := prune(ctx, db, Runs, p.dropRun); err != nil {
		return p.done, err
	}
	if err := prune(ctx, db, Messages, p.dropMessage); err != nil {
		return p.done, err
	}
	return p.done, nil
}

// prune goes over a table from its newest record to its oldest and deletes
// those that drop says.
func prune[T any](ctx context.Context, db *DB, t *Table[T], drop func(*T) bool) error {
	for end := ""; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, doomed, err := pruneStep(db, t, end, drop)
		if err != nil {
			return err
		}
		if err := deleteAll(db, t, doomed); err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		end = next
	}
}

// pruneStep looks at one chunk of records before end.
func pruneStep[T any](db *DB, t *Table[T], end string, drop func(*T) bool) (next string, doomed []string, err error) {
	err = db.View(func(tx *Tx) error {
		n := 0
		for v, err := range t.Back(tx, end) {
			if err != nil {
				return err
			}
			if drop(v) {
				doomed = append(doomed, t.key(v))
			}
			if n++; n == pruneChunk {
				next = t.key(v)
				return nil
			}
		}
		return nil
	})
	return next, doomed, err
}

func deleteAll[T any](db *DB, t *Table[T], keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return db.Batch(func(tx *Tx) error {
		for _, key := range keys {
			if err := t.Delete(tx, key); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		return nil
	})
}

// A pruner decides. It sees runs and messages newest first.
type pruner struct {
	db         *DB
	r          Retention
	now        time.Time
	kept, gone map[uint64]bool // runs
	runs       map[string]int  // finished runs seen, by node and kind
	messages   map[string]int  // messages without a run seen, by node
	done       Pruned
}

func (p *pruner) dropRun(r *Run) bool {
	drop := r.Outcome != Running && p.tooMany(r)
	if drop {
		p.gone[r.ID] = true
		p.done.Runs++
	} else {
		p.kept[r.ID] = true
	}
	return drop
}

// tooMany reports whether a finished run is too old or one too many.
func (p *pruner) tooMany(r *Run) bool {
	kind, age := "ok/", p.r.Age
	if r.Outcome == Failed || r.Outcome == Aborted {
		kind, age = "failed/", max(p.r.FailedAge, p.r.Age)
		if p.r.FailedAge == 0 {
			age = 0
		}
	}
	p.runs[kind+r.Node]++
	return p.old(r.Ended, age) || (p.r.Runs > 0 && p.runs[kind+r.Node] > p.r.Runs)
}

func (p *pruner) old(t time.Time, age time.Duration) bool {
	return age > 0 && p.now.Sub(t) > age
}

func (p *pruner) dropMessage(m *Message) bool {
	drop := p.doomed(m)
	if drop {
		p.done.Messages++
	}
	return drop
}

// doomed reports whether a message is to be removed. The messages of a run go
// with it; a run that began after the runs were looked at is in neither set,
// and its messages are young.
func (p *pruner) doomed(m *Message) bool {
	switch {
	case p.gone[m.Run]:
		return true
	case p.kept[m.Run]:
		return false
	case m.Run != 0:
		return p.old(m.Time, p.r.Age)
	}
	p.messages[m.Node]++
	return p.old(m.Time, p.r.Age) || (p.r.Messages > 0 && p.messages[m.Node] > p.r.Messages)
}
