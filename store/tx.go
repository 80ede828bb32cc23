package store

import (
	"encoding/binary"
	"fmt"
)

// A Tx is a transaction.
type Tx struct {
	tx      spaceTx
	db      *DB
	changes []Change // of records, in order
}

// put seals a record and stores it as its next revision.
func (tx *Tx) put(table, key string, k, plain []byte) error {
	rev, err := tx.rev(k)
	if err != nil {
		return &KeyError{Table: table, Key: key, Err: err}
	}
	if err := tx.tx.Put(k, tx.db.seal.seal(k, rev+1, plain)); err != nil {
		return err
	}
	tx.changed(Change{Table: table, Key: key, Rev: rev + 1})
	return nil
}

func (tx *Tx) delete(table, key string, k []byte) error {
	if err := tx.tx.Delete(k); err != nil {
		return err
	}
	tx.changed(Change{Table: table, Key: key, Deleted: true})
	return nil
}

// changed notes a change for those who watch. Messages have a stream of their
// own.
func (tx *Tx) changed(c Change) {
	if c.Table != Messages.name {
		tx.changes = append(tx.changes, c)
	}
}

// rev returns the revision of the record at k, 0 when there is none.
func (tx *Tx) rev(k []byte) (uint64, error) {
	raw := tx.tx.Get(k)
	if raw == nil {
		return 0, nil
	}
	body, err := checkSealed(k, raw)
	if err != nil {
		return 0, err
	}
	return revision(body), nil
}

// NextID returns the next number of a named sequence, from 1 on.
func (tx *Tx) NextID(name string) (uint64, error) {
	n, err := tx.sequence(name)
	if err != nil {
		return 0, err
	}
	return n + 1, tx.setSequence(name, n+1)
}

func (tx *Tx) sequence(name string) (uint64, error) {
	k := sequenceKey(name)
	raw := tx.tx.Get(k)
	if raw == nil {
		return 0, nil
	}
	plain, err := tx.db.seal.open(k, raw)
	if err != nil {
		return 0, fmt.Errorf("sequence %s: %w", name, err)
	}
	if len(plain) != 8 {
		return 0, fmt.Errorf("sequence %s: %w", name, ErrCorrupt)
	}
	return binary.BigEndian.Uint64(plain), nil
}

func (tx *Tx) setSequence(name string, n uint64) error {
	k := sequenceKey(name)
	return tx.tx.Put(k, tx.db.seal.seal(k, 1, binary.BigEndian.AppendUint64(nil, n)))
}

func sequenceKey(name string) []byte { return []byte("s/" + name) }
