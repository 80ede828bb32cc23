package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
)

// MessagesAfter returns up to limit messages (0: all) with a number above
// seq, those not yet written included, that satisfy keep (nil: all).
func (db *DB) MessagesAfter(seq uint64, limit int, keep func(*Message) bool) ([]Message, error) {
	return db.messages(seq, limit, keep, func(tx *Tx) iter.Seq2[*Message, error] {
		return Messages.From(tx, messageKey(seq+1))
	})
}

// TraceMessages returns up to limit messages (0: all) of a trace with a number
// above after that satisfy keep (nil: all), in order, those not yet written
// included.
func (db *DB) TraceMessages(trace string, after uint64, limit int, keep func(*Message) bool) ([]Message, error) {
	of := func(m *Message) bool { return m.Trace == trace && (keep == nil || keep(m)) }
	return db.messages(after, limit, of, func(tx *Tx) iter.Seq2[*Message, error] {
		return Messages.WhereFrom(tx, "trace", trace, messageKey(after+1))
	})
}

// NodeMessages returns up to limit messages (0: all) of a node, by UUID, with
// a number above after that satisfy keep (nil: all), in order, those not yet
// written included.
func (db *DB) NodeMessages(node string, after uint64, limit int, keep func(*Message) bool) ([]Message, error) {
	of := func(m *Message) bool { return m.Node == node && (keep == nil || keep(m)) }
	return db.messages(after, limit, of, func(tx *Tx) iter.Seq2[*Message, error] {
		return Messages.WhereFrom(tx, "node", node, messageKey(after+1))
	})
}

// LastNodeMessages returns the newest n messages of a node, oldest first.
func (db *DB) LastNodeMessages(node string, n int) ([]Message, error) {
	pending, upto := db.unwritten(0)
	var ms []Message // newest first
	for _, p := range slices.Backward(pending) {
		if p.m.Node == node && len(ms) < n {
			m, err := p.decode()
			if err != nil {
				return nil, err
			}
			ms = append(ms, m)
		}
	}
	err := db.View(func(tx *Tx) error {
		for m, err := range Messages.WhereBack(tx, "node", node, messageKey(upto)) {
			if err != nil || len(ms) >= n {
				return err
			}
			ms = append(ms, *m)
		}
		return nil
	})
	slices.Reverse(ms)
	return ms, err
}

// LastMessage returns the number of the newest message, 0 when there is none.
func (db *DB) LastMessage() uint64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.seq
}

// messages puts together what is on the disk and what is still in memory.
func (db *DB) messages(after uint64, limit int, keep func(*Message) bool, from func(*Tx) iter.Seq2[*Message, error]) ([]Message, error) {
	if after == math.MaxUint64 {
		return nil, nil
	}
	pending, upto := db.unwritten(after)
	var ms []Message
	full := func() bool { return limit > 0 && len(ms) >= limit }
	err := db.View(func(tx *Tx) error {
		for m, err := range from(tx) {
			if err != nil || m.Seq >= upto || full() {
				return err
			}
			if keep == nil || keep(m) {
				ms = append(ms, *m)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range pending {
		if full() {
			break
		}
		m, err := p.decode()
		if err != nil {
			return nil, err
		}
		if keep == nil || keep(&m) {
			ms = append(ms, m)
		}
	}
	return ms, nil
}

// unwritten returns the pending messages above after, and the number below
// which all messages are on the disk.
func (db *DB) unwritten(after uint64) ([]pendingMessage, uint64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	upto := db.seq + 1
	if len(db.pending) > 0 {
		upto = db.pending[0].m.Seq
	}
	i, _ := slices.BinarySearchFunc(db.pending, after+1, func(p pendingMessage, seq uint64) int {
		return cmp.Compare(p.m.Seq, seq)
	})
	return slices.Clone(db.pending[i:]), upto
}

func (p pendingMessage) decode() (m Message, err error) {
	if err := json.Unmarshal(p.raw, &m); err != nil {
		return m, fmt.Errorf("message %d: %w", p.m.Seq, err)
	}
	return m, nil
}

func messageKey(seq uint64) string { return fmt.Sprintf("%016x", seq) }
