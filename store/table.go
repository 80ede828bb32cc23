package store

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// A Table holds the records of one type, as JSON, by a string key, with
// secondary indexes that are kept in the same transaction.
//
// In the space a record of table T lies at t/T/key, an entry of index I of
// that table at i/T/I/value NUL key.
type Table[T any] struct {
	name    string
	key     func(*T) string
	indexes []IndexDef[T]
	copy    func(*T) *T // set when decoded records are cached
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
	return &Table[T]{name: name, key: key, indexes: indexes}
}

// cached makes the table keep decoded records in memory, for tables that are
// read often and have thousands of records at most.
func (t *Table[T]) cached() *Table[T] {
	t.copy = copierOf[T]()
	return t
}

// Name returns the table's name.
func (t *Table[T]) Name() string { return t.name }

// Get returns the record with the given key, or ErrNotFound. It is the
// caller's own copy.
func (t *Table[T]) Get(tx *Tx, key string) (*T, error) {
	k := t.recordKey(key)
	raw := tx.tx.Get(k)
	if raw == nil {
		return nil, &KeyError{Table: t.name, Key: key, Err: ErrNotFound}
	}
	return t.decode(tx, k, raw)
}

// Peek is Get for readers only: the record may be shared with others, and must
// not be changed, nor anything that it refers to.
func (t *Table[T]) Peek(tx *Tx, key string) (*T, error) {
	k := t.recordKey(key)
	raw := tx.tx.Get(k)
	if raw == nil {
		return nil, &KeyError{Table: t.name, Key: key, Err: ErrNotFound}
	}
	v, err := t.peek(tx, k, raw)
	if err != nil {
		return nil, &KeyError{Table: t.name, Key: key, Err: err}
	}
	return v, nil
}

// PeekAll yields all records in key order, as Peek does.
func (t *Table[T]) PeekAll(tx *Tx) iter.Seq2[*T, error] {
	prefix := t.recordKey("")
	return func(yield func(*T, error) bool) {
		for k, raw := range tx.tx.Scan(prefix, nil) {
			v, err := t.peek(tx, k, raw)
			if err != nil {
				err = &KeyError{Table: t.name, Key: string(k[len(prefix):]), Err: err}
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// Has reports whether there is a record with the given key.
func (t *Table[T]) Has(tx *Tx, key string) bool { return tx.tx.Get(t.recordKey(key)) != nil }

// Rev returns the revision of the record with the given key: 1 when it is
// first stored, one more each time it is stored again. ErrNotFound if there is
// none.
func (t *Table[T]) Rev(tx *Tx, key string) (uint64, error) {
	rev, err := tx.rev(t.recordKey(key))
	if err == nil && rev == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return 0, &KeyError{Table: t.name, Key: key, Err: err}
	}
	return rev, nil
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
	return t.WhereFrom(tx, index, value, "")
}

// WhereFrom yields the records that have the value in an index and whose key
// is start or comes after it, in key order.
func (t *Table[T]) WhereFrom(tx *Tx, index, value, start string) iter.Seq2[*T, error] {
	prefix := t.indexKey(index, value, "")
	return t.indexed(tx, len(prefix), tx.tx.Scan(prefix, t.indexKey(index, value, start)))
}

// WhereBack yields the records that have the value in an index and whose key
// comes before end, in reverse key order; an empty end is the end.
func (t *Table[T]) WhereBack(tx *Tx, index, value, end string) iter.Seq2[*T, error] {
	prefix := t.indexKey(index, value, "")
	if end == "" {
		return t.indexed(tx, len(prefix), tx.tx.ScanBack(prefix, nil))
	}
	return t.indexed(tx, len(prefix), tx.tx.ScanBack(prefix, t.indexKey(index, value, end)))
}

// indexed yields the records that index entries point to.
func (t *Table[T]) indexed(tx *Tx, prefix int, entries iter.Seq2[[]byte, []byte]) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for k, sum := range entries {
			key := string(k[prefix:])
			rk := t.recordKey(key)
			raw := tx.tx.Get(rk)
			if _, err := checkSum(k, sum); err != nil || raw == nil {
				if err == nil {
					err = fmt.Errorf("%w: an index names it but it is not there", ErrCorrupt)
				}
				yield(nil, &KeyError{Table: t.name, Key: key, Err: err})
				return
			}
			if !yield(t.decode(tx, rk, raw)) {
				return
			}
		}
	}
}

// Count returns how many records there are, without reading them.
func (t *Table[T]) Count(tx *Tx) int { return countKeys(tx, t.recordKey("")) }

// CountWhere returns how many records have the value in an index, without
// reading them.
func (t *Table[T]) CountWhere(tx *Tx, index, value string) int {
	return countKeys(tx, t.indexKey(index, value, ""))
}

func countKeys(tx *Tx, prefix []byte) (n int) {
	for range tx.tx.Scan(prefix, nil) {
		n++
	}
	return n
}

// All yields all records in key order.
func (t *Table[T]) All(tx *Tx) iter.Seq2[*T, error] { return t.From(tx, "") }

// From yields the records whose key is start or comes after it.
func (t *Table[T]) From(tx *Tx, start string) iter.Seq2[*T, error] {
	return t.scanned(tx, tx.tx.Scan(t.recordKey(""), t.recordKey(start)))
}

// Back yields the records whose key comes before end, newest key first; an
// empty end is the end of the table.
func (t *Table[T]) Back(tx *Tx, end string) iter.Seq2[*T, error] {
	if end == "" {
		return t.scanned(tx, tx.tx.ScanBack(t.recordKey(""), nil))
	}
	return t.scanned(tx, tx.tx.ScanBack(t.recordKey(""), t.recordKey(end)))
}

func (t *Table[T]) scanned(tx *Tx, records iter.Seq2[[]byte, []byte]) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for k, raw := range records {
			if !yield(t.decode(tx, k, raw)) {
				return
			}
		}
	}
}

// Put stores v, replacing a record with the same key. A value of a unique
// index that another record has is ErrConflict; a key or value that cannot be
// stored is ErrBadKey.
func (t *Table[T]) Put(tx *Tx, v *T) error {
	key := t.key(v)
	raw, err := json.Marshal(v)
	if err != nil {
		return &KeyError{Table: t.name, Key: key, Err: err}
	}
	return t.putEncoded(tx, key, v, raw)
}

// Replace is Put for who knows the record that is stored: old need only have
// what the indexes look at. It saves the reading of it.
func (t *Table[T]) Replace(tx *Tx, old, v *T) error {
	key := t.key(v)
	raw, err := json.Marshal(v)
	if err != nil {
		return &KeyError{Table: t.name, Key: key, Err: err}
	}
	return t.replace(tx, key, old, v, raw)
}

// putEncoded is Put for a record whose JSON is known; v need only have what
// the indexes look at.
func (t *Table[T]) putEncoded(tx *Tx, key string, v *T, plain []byte) error {
	old, err := t.old(tx, key)
	if err != nil {
		return err
	}
	return t.replace(tx, key, old, v, plain)
}

func (t *Table[T]) replace(tx *Tx, key string, old, v *T, plain []byte) error {
	if err := t.checkKeys(key, v); err != nil {
		return err
	}
	if err := t.reindex(tx, key, old, v); err != nil {
		return err
	}
	return tx.put(t.name, key, t.recordKey(key), plain)
}

// maxKey is the longest key or index value, in bytes; the engine takes a
// little over 32 KiB for both together.
const maxKey = 4096

func (t *Table[T]) checkKeys(key string, v *T) error {
	if key == "" || badKey(key) {
		return &KeyError{Table: t.name, Key: key, Err: ErrBadKey}
	}
	for _, x := range t.indexes {
		if i := slices.IndexFunc(x.values(v), badKey); i >= 0 {
			return &KeyError{Table: t.name, Index: x.name, Key: x.values(v)[i], Err: ErrBadKey}
		}
	}
	return nil
}

func badKey(s string) bool { return len(s) > maxKey || strings.IndexByte(s, 0) >= 0 }

// Delete removes the record with the given key, or returns ErrNotFound.
func (t *Table[T]) Delete(tx *Tx, key string) error {
	old, err := t.Get(tx, key)
	if err != nil {
		return err
	}
	if err := t.reindex(tx, key, old, nil); err != nil {
		return err
	}
	tx.db.cache.drop(t.recordKey(key))
	return tx.delete(t.name, key, t.recordKey(key))
}

// old returns the record that is stored, for its index values alone: it may be
// the cache's own. Nil when there is none, or no index.
func (t *Table[T]) old(tx *Tx, key string) (*T, error) {
	k := t.recordKey(key)
	raw := tx.tx.Get(k)
	if raw == nil || len(t.indexes) == 0 {
		return nil, nil
	}
	v, err := t.peek(tx, k, raw)
	if err != nil {
		return nil, &KeyError{Table: t.name, Key: key, Err: err}
	}
	return v, nil
}

// decode returns the record sealed in raw.
func (t *Table[T]) decode(tx *Tx, k, raw []byte) (*T, error) {
	v, err := t.decodeCached(tx, k, raw)
	if err != nil {
		return nil, &KeyError{Table: t.name, Key: string(k[len(t.recordKey("")):]), Err: err}
	}
	return v, nil
}

func (t *Table[T]) decodeCached(tx *Tx, k, raw []byte) (*T, error) {
	v, err := t.peek(tx, k, raw)
	if err != nil || t.copy == nil {
		return v, err
	}
	return t.copy(v), nil
}

// peek returns the record sealed in raw; that of a cached table is the cache's
// own.
func (t *Table[T]) peek(tx *Tx, k, raw []byte) (*T, error) {
	if t.copy == nil {
		return t.decodeAnew(tx, k, raw)
	}
	body, err := checkSealed(k, raw)
	if err != nil {
		return nil, err
	}
	if v, ok := tx.db.cache.get(k, body).(*T); ok {
		return v, nil
	}
	v, err := t.decodeAnew(tx, k, raw)
	if err != nil {
		return nil, err
	}
	tx.db.cache.put(k, body, v)
	return v, nil
}

func (t *Table[T]) decodeAnew(tx *Tx, k, raw []byte) (*T, error) {
	plain, err := tx.db.seal.open(k, raw)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(plain, v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
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
			if err := t.enter(tx, x, value, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// enter adds an entry to an index.
func (t *Table[T]) enter(tx *Tx, x IndexDef[T], value, key string) error {
	if x.unique {
		prefix := t.indexKey(x.name, value, "")
		for k := range tx.tx.Scan(prefix, nil) {
			return &KeyError{Table: t.name, Index: x.name, Key: value, Holder: string(k[len(prefix):]), Err: ErrConflict}
		}
	}
	k := t.indexKey(x.name, value, key)
	return tx.tx.Put(k, withSum(k, nil))
}

func (t *Table[T]) recordKey(key string) []byte { return []byte("t/" + t.name + "/" + key) }

func (t *Table[T]) indexKey(index, value, key string) []byte {
	return []byte("i/" + t.name + "/" + index + "/" + value + "\x00" + key)
}
