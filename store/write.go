package store

import (
	"bytes"
	"errors"
)

// Update runs fn in one read-write transaction and returns when it is on the
// disk. fn must do no I/O of its own, nor call Update, Batch or Flush.
func (db *DB) Update(fn func(*Tx) error) error {
	db.writer.Lock()
	defer db.writer.Unlock()
	if db.closed {
		return ErrClosed
	}
	return db.commit(fn)
}

// Batch is Update for many callers at once: one commit, and one wait for the
// disk, carries the writes of all that have asked meanwhile. fn runs once,
// perhaps on another caller's goroutine; what it wrote is undone if it fails.
func (db *DB) Batch(fn func(*Tx) error) error {
	c := &call{fn: fn, ended: make(chan struct{})}
	db.queueMu.Lock()
	db.queue = append(db.queue, c)
	db.queueMu.Unlock()
	db.lead(c)
	if c.panicked != nil {
		panic(c.panicked)
	}
	return c.err
}

// A call is one caller of Batch.
type call struct {
	fn       func(*Tx) error
	ended    chan struct{} // closed when done, after what follows was set
	done     bool          // of use to who leads
	wrote    bool
	err      error
	panicked any
}

// maxBatch is how many calls share a transaction.
const maxBatch = 1000

// lead waits for its work to be done, or for its turn to lead. Whoever comes
// first after a commit takes along all that wait; these need not come to the
// writer's lock at all.
func (db *DB) lead(c *call) {
	select {
	case <-c.ended:
		return
	case db.leading <- struct{}{}:
	}
	defer func() { <-db.leading }()
	db.writer.Lock()
	defer db.writer.Unlock()
	for !c.done {
		if db.closed {
			c.err = ErrClosed
			return
		}
		db.runCalls(db.takeCalls(c))
	}
}

// takeCalls takes the waiting calls. A call whose batch was broken off is no
// longer in the queue; its caller runs it alone.
func (db *DB) takeCalls(c *call) []*call {
	db.queueMu.Lock()
	defer db.queueMu.Unlock()
	n := min(len(db.queue), maxBatch)
	calls := db.queue[:n:n]
	db.queue = db.queue[n:]
	if n == 0 {
		return []*call{c}
	}
	return calls
}

var errNothing = errors.New("nothing to write")

func (db *DB) runCalls(calls []*call) {
	err := db.commit(func(tx *Tx) error {
		wrote := false
		for _, c := range calls {
			c.run(tx)
			wrote = wrote || c.wrote && c.err == nil && c.panicked == nil
		}
		if !wrote {
			return errNothing
		}
		return nil
	})
	for _, c := range calls {
		if err != nil && !errors.Is(err, errNothing) && c.err == nil && c.panicked == nil {
			c.err = err
		}
		c.done = true
		close(c.ended)
	}
}

// run runs the call in tx and undoes what it wrote if it fails.
func (c *call) run(tx *Tx) {
	base, changes := tx.tx, len(tx.changes)
	log := &undoLog{spaceTx: base}
	tx.tx = log
	defer func() {
		r := recover()
		tx.tx = base
		if _, ok := r.(damage); ok || isFault(r) {
			panic(r) // not of the call's making, and of no use to go on with
		}
		c.panicked = r
		if c.err == nil && r == nil {
			return
		}
		tx.changes = tx.changes[:changes]
		if err := log.undo(); err != nil {
			panic(damage{err})
		}
	}()
	c.err = c.fn(tx)
	c.wrote = len(log.log) > 0
}

// An undoLog remembers what the writes of one call replaced.
type undoLog struct {
	spaceTx
	log []undoEntry
}

type undoEntry struct{ key, old []byte }

func (u *undoLog) Put(key, value []byte) error {
	u.note(key)
	return u.spaceTx.Put(key, value)
}

func (u *undoLog) Delete(key []byte) error {
	u.note(key)
	return u.spaceTx.Delete(key)
}

func (u *undoLog) note(key []byte) {
	u.log = append(u.log, undoEntry{bytes.Clone(key), u.spaceTx.Get(key)})
}

func (u *undoLog) undo() error {
	for i := len(u.log) - 1; i >= 0; i-- {
		e := u.log[i]
		var err error
		if e.old == nil {
			err = u.spaceTx.Delete(e.key)
		} else {
			err = u.spaceTx.Put(e.key, e.old)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// commit runs fn in one transaction, together with the messages recorded so
// far: whatever it makes durable, the messages that led there are too. The
// caller holds writer.
//
// A disk that fails may have taken it all the same, so those who follow the
// store must then read anew.
func (db *DB) commit(fn func(*Tx) error) error {
	ms, seq := db.snapshot()
	var changes []Change
	doubtful := false // fn's part is done, and the disk's is under way
	reserved := db.reserved
	err := db.space.Update(func(stx spaceTx) error {
		tx := &Tx{tx: stx, db: db}
		if err := db.putMessages(tx, ms, seq); err != nil {
			return err
		}
		err := fn(tx)
		if errors.Is(err, errNothing) && len(ms) > 0 {
			return nil
		}
		changes, doubtful = tx.changes, err == nil
		return err
	})
	if err != nil {
		if doubtful {
			db.feed.forget()
		}
		db.reserved = reserved
		return err
	}
	db.written(ms)
	db.feed.publish(changes)
	return nil
}
