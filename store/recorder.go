package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Messages are written behind: Record only appends to a list in memory, and
// one goroutine, or any transaction that comes first, writes the list. Message
// numbers are reserved on the disk ahead of use, so that one that was given
// out is never given out again, even if a crash loses the message itself.
const (
	writeBehind     = 100 * time.Millisecond
	retryBehind     = time.Second // after the disk refused
	trimPeriod      = 10 * time.Second
	messageSequence = "messages"
	reserveAhead    = 1 << 16
	maxPending      = 200_000 // beyond, the oldest are lost
	maxLabel        = 200     // bytes
	maxError        = 4 << 10
	maxDetail       = 16 << 10
	maxIdent        = 256
)

// A pendingMessage waits to be written.
type pendingMessage struct {
	m   Message // without Detail, Wire
	raw []byte  // the whole, as JSON
}

// Record implements [Recorder].
func (db *DB) Record(ctx context.Context, m Message) uint64 {
	m = completed(ctx, m)
	db.mu.Lock()
	defer db.mu.Unlock()
	db.seq++
	m.Seq = db.seq
	raw := encodeMessage(&m)
	m.Detail, m.Wire = nil, nil
	db.pending = append(db.pending, pendingMessage{m, raw})
	if n := len(db.pending) - maxPending; n > 0 {
		db.pending = append([]pendingMessage(nil), db.pending[n+maxPending/10:]...)
		db.lost += uint64(n + maxPending/10)
	}
	wake(db.wake)
	for c := range db.watch {
		wake(c)
	}
	return m.Seq
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// completed adds to m what the context knows, and cuts what is too long: parts
// of a message come from the network.
func completed(ctx context.Context, m Message) Message {
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
	m.Trace, m.Node = ident(m.Trace), ident(m.Node)
	m.Label, m.Error = cut(m.Label, maxLabel), cut(m.Error, maxError)
	return m
}

// ident drops what cannot be a value of an index.
func ident(s string) string {
	if len(s) > maxIdent || strings.IndexByte(s, 0) >= 0 {
		return ""
	}
	return s
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// encodeMessage never fails: a detail that is too large or no JSON is left
// out, and said to be.
func encodeMessage(m *Message) []byte {
	if m.Detail != nil {
		if d, err := json.Marshal(m.Detail); err != nil || len(d) > maxDetail {
			m.Detail = map[string]any{"detail": "left out: too large or not JSON"}
		}
	}
	raw, err := json.Marshal(m)
	if err != nil { // a time beyond year 9999
		m.Time = time.Time{}
		raw, _ = json.Marshal(m)
	}
	return raw
}

// snapshot returns the messages to be written and the newest number.
func (db *DB) snapshot() ([]pendingMessage, uint64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.pending[:len(db.pending):len(db.pending)], db.seq
}

// putMessages writes ms, and reserves numbers when those at hand run low.
func (db *DB) putMessages(tx *Tx, ms []pendingMessage, seq uint64) error {
	for i := range ms {
		if err := Messages.putEncoded(tx, Messages.key(&ms[i].m), &ms[i].m, ms[i].raw); err != nil {
			return fmt.Errorf("write messages: %w", err)
		}
	}
	if len(ms) > 0 && seq+reserveAhead/2 > db.reserved {
		return db.reserve(tx, seq)
	}
	return nil
}

func (db *DB) reserve(tx *Tx, seq uint64) error {
	db.reserved = seq + reserveAhead
	return tx.setSequence(messageSequence, db.reserved)
}

// endSequence gives back the numbers that were reserved and not used.
func (db *DB) endSequence(tx *Tx) error {
	_, seq := db.snapshot()
	return tx.setSequence(messageSequence, seq)
}

// written drops the pending messages that are on the disk now.
func (db *DB) written(ms []pendingMessage) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.failed = nil
	for len(ms) > 0 && len(db.pending) > 0 && db.pending[0].m.Seq <= ms[len(ms)-1].m.Seq {
		db.pending = db.pending[1:]
	}
	if len(db.pending) == 0 {
		db.pending = nil
	}
}

// Flush writes the messages recorded so far. Every Update and Batch does so
// too, in its own transaction.
func (db *DB) Flush() error {
	db.writer.Lock()
	defer db.writer.Unlock()
	if db.closed {
		return ErrClosed
	}
	return db.flush()
}

func (db *DB) flush() error {
	if ms, _ := db.snapshot(); len(ms) == 0 {
		return nil
	}
	err := db.commit(func(*Tx) error { return errNothing })
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// writeBehind writes messages soon after they were recorded, until the store
// is closed. What the disk refuses is kept and tried again.
func (db *DB) writeBehind() {
	defer close(db.done)
	trim := time.NewTicker(trimPeriod)
	defer trim.Stop()
	for {
		select {
		case <-trim.C:
			_ = db.space.Trim() // it costs nothing but memory
			continue
		case <-db.wake:
		case <-db.quit:
			return
		}
		for wait := writeBehind; ; wait = retryBehind {
			if !db.sleep(wait) {
				return
			}
			db.writer.Lock()
			err := db.flush()
			db.writer.Unlock()
			if err == nil {
				break
			}
			db.mu.Lock()
			db.failed = err
			db.mu.Unlock()
		}
	}
}

func (db *DB) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-db.quit:
		return false
	}
}

// RecorderState returns how many messages wait to be written, how many were
// lost because the disk refused for too long, and its last refusal.
func (db *DB) RecorderState() (waiting int, lost uint64, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return len(db.pending), db.lost, db.failed
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
