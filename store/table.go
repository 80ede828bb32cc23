package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
)

// A Table holds the records of one type, as JSON, by a string key, with
// secondary indexes that are kept in the same transaction.
type Table[T any] struct {
	name    string
	key     func(*T) string
	indexes []IndexDef[T]
}

// An IndexDef is a secondary index of a table: the values under which a record
// is to be found.
type IndexDef[T any] struct {
	name   string
	values func(*T) []string
	unique bool
}

// Index defines an index in which many records may share a value.
func Index[T any](name string, values func(*T) []string) IndexDef[T] {
	return IndexDef[T]{name, values, false}
}

// Unique defines an index in which no two records may share a value.
func Unique[T any](name string, values func(*T) []string) IndexDef[T] {
	return IndexDef[T]{name, values, true}
}

// NewTable defines a table. Tables are package variables: one per record type.
func NewTable[T any](name string, key func(*T) string, indexes ...IndexDef[T]) *Table[T] {
	return &Table[T]{name, key, indexes}
}

// Name returns the table's name.
func (t *Table[T]) Name() string { return t.name }

// Get returns the record with the given key, or ErrNotFound.
func (t *Table[T]) Get(tx *Tx, key string) (*T, error) {
	raw := tx.tx.Get(t.recordKey(key))
	if raw == nil {
		return nil, &KeyError{Table: t.name, Key: key, Err: ErrNotFound}
	}
	return t.decode(tx, key, raw)
}

// By returns the one record that has the value in a unique index.
func (t *Table[T]) By(tx *Tx, index, value string) (*T, error) {
	for v, err := range t.Where(tx, index, value) {
		return v, err
	}
	return nil, &KeyError{Table: t.name, Index: index, Key: value, Err: ErrNotFound}
}

// Where yields the records that have the value in an index, in key order.
func (t *Table[T]) Where(tx *Tx, index, value string) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		prefix := t.indexKey(index, value, "")
		for k := range tx.tx.Scan(prefix, nil) {
			if !yield(t.Get(tx, string(k[len(prefix):]))) {
				return
			}
		}
	}
}

// All yields all records in key order.
func (t *Table[T]) All(tx *Tx) iter.Seq2[*T, error] { return t.From(tx, "") }

// From yields the records whose key is start or comes after it.
func (t *Table[T]) From(tx *Tx, start string) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		prefix := t.recordKey("")
		for k, raw := range tx.tx.Scan(prefix, t.recordKey(start)) {
			if !yield(t.decode(tx, string(k[len(prefix):]), raw)) {
				return
			}
		}
	}
}

// Put stores v, replacing a record with the same key. A value of a unique
// index that another record has is ErrConflict.
func (t *Table[T]) Put(tx *Tx, v *T) error {
	key := t.key(v)
	if key == "" || bytes.IndexByte([]byte(key), 0) >= 0 {
		return fmt.Errorf("%s: bad key %q", t.name, key)
	}
	old, err := t.old(tx, key)
	if err != nil {
		return err
	}
	if err := t.reindex(tx, key, old, v); err != nil {
		return err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s %q: %w", t.name, key, err)
	}
	return tx.put(t.name, key, t.recordKey(key), raw)
}

// Delete removes the record with the given key, or returns ErrNotFound.
func (t *Table[T]) Delete(tx *Tx, key string) error {
	old, err := t.Get(tx, key)
	if err != nil {
		return err
	}
	if err := t.reindex(tx, key, old, nil); err != nil {
		return err
	}
	return tx.delete(t.name, key, t.recordKey(key))
}

func (t *Table[T]) old(tx *Tx, key string) (*T, error) {
	raw := tx.tx.Get(t.recordKey(key))
	if raw == nil {
		return nil, nil
	}
	return t.decode(tx, key, raw)
}

func (t *Table[T]) decode(tx *Tx, key string, raw []byte) (*T, error) {
	plain, err := tx.open(t.recordKey(key), raw)
	if err != nil {
		return nil, &KeyError{Table: t.name, Key: key, Err: err}
	}
	v := new(T)
	if err := json.Unmarshal(plain, v); err != nil {
		return nil, &KeyError{Table: t.name, Key: key, Err: fmt.Errorf("%w: %w", ErrCorrupt, err)}
	}
	return v, nil
}

// reindex replaces the index entries of old by those of v; either may be nil.
func (t *Table[T]) reindex(tx *Tx, key string, old, v *T) error {
	for _, x := range t.indexes {
		var was, is []string
		if old != nil {
			was = x.values(old)
		}
		if v != nil {
			is = x.values(v)
		}
		for _, value := range was {
			if !slices.Contains(is, value) {
				if err := tx.tx.Delete(t.indexKey(x.name, value, key)); err != nil {
					return err
				}
			}
		}
		for _, value := range is {
			if slices.Contains(was, value) {
				continue
			}
			if x.unique {
				prefix := t.indexKey(x.name, value, "")
				for k := range tx.tx.Scan(prefix, nil) {
					return &KeyError{Table: t.name, Index: x.name, Key: value, Holder: string(k[len(prefix):]), Err: ErrConflict}
				}
			}
			if err := tx.tx.Put(t.indexKey(x.name, value, key), []byte{}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Table[T]) recordKey(key string) []byte { return []byte("t/" + t.name + "/" + key) }

func (t *Table[T]) indexKey(index, value, key string) []byte {
	return []byte("i/" + t.name + "/" + index + "/" + value + "\x00" + key)
}
