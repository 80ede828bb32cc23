package api

import (
	"errors"
	"slices"
	"sync"

	"bessemer/store"
)

// A catalog keeps the records of a table in memory, in the order in which
// lists show them, and follows the store: a page of a list costs the page, not
// all there is. Its records are shared, and never changed.
type catalog[T any] struct {
	table *store.Table[T]
	rs    *resource[T]

	mu    sync.Mutex
	upto  uint64        // position in the store's changes
	all   []*T          // replaced as a whole when something changes; nil: not read yet
	byKey map[string]*T // by the table's key
}

func newCatalog[T any](t *store.Table[T], rs *resource[T]) *catalog[T] {
	return &catalog[T]{table: t, rs: rs}
}

// list returns all records, oldest first, as they are now. The slice may be
// read, not changed.
func (k *catalog[T]) list(db *store.DB) ([]*T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all != nil {
		changes, upto, err := db.ChangesSince(k.upto)
		if err == nil {
			err = k.take(db, changes, upto)
		}
		if !errors.Is(err, store.ErrBehind) {
			return k.all, err
		}
	}
	err := k.read(db)
	return k.all, err
}

// read reads the whole table.
func (k *catalog[T]) read(db *store.DB) error {
	upto := db.Position()
	all, byKey := []*T{}, map[string]*T{}
	err := db.View(func(tx *store.Tx) error {
		for v, err := range k.table.PeekAll(tx) {
			if err != nil {
				return err
			}
			all = append(all, v)
			byKey[k.rs.id(v)] = v
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, k.rs.compare(page{}))
	k.all, k.byKey, k.upto = all, byKey, upto
	return nil
}

// take brings the catalog up to a position by the changes until there.
func (k *catalog[T]) take(db *store.DB, changes []store.Change, upto uint64) error {
	fresh := map[string]*T{} // nil: deleted
	for _, c := range changes {
		if c.Table == k.table.Name() {
			fresh[c.Key] = nil
		}
	}
	if len(fresh) > 0 {
		err := db.View(func(tx *store.Tx) error {
			for key := range fresh {
				v, err := k.table.Peek(tx, key)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				fresh[key] = v
			}
			return nil
		})
		if err != nil {
			return err
		}
		k.merge(fresh)
	}
	k.upto = upto
	return nil
}

// merge replaces the records that have changed: nil for those that have gone.
func (k *catalog[T]) merge(fresh map[string]*T) {
	order := k.rs.compare(page{})
	all, holes, grown := slices.Clone(k.all), false, false
	for key, v := range fresh {
		old := k.byKey[key]
		stays := old != nil && v != nil && order(old, v) == 0
		if old != nil {
			i, _ := slices.BinarySearchFunc(k.all, old, order)
			if all[i] = nil; stays {
				all[i] = v
			}
			holes = holes || !stays
		}
		if delete(k.byKey, key); v == nil {
			continue
		}
		if k.byKey[key] = v; !stays {
			all, grown = append(all, v), true
		}
	}
	if holes {
		all = slices.DeleteFunc(all, func(v *T) bool { return v == nil })
	}
	if grown {
		slices.SortFunc(all, order)
	}
	k.all = all
}
