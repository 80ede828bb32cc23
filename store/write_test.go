package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"bessemer/store"
	"bessemer/store/storetest"
)

func TestConcurrentWriters(t *testing.T) {
	db := storetest.Open(t)
	const workers, each = 16, 25
	var wg sync.WaitGroup
	ids := make(chan uint64, workers*each)
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				write := db.Batch
				if i%5 == 0 {
					write = db.Update
				}
				err := write(func(tx *store.Tx) error {
					id, err := tx.NextID("shared")
					if err != nil {
						return err
					}
					ids <- id
					return store.Nodes.Put(tx, &store.Node{UUID: fmt.Sprintf("%d-%d", w, i), Run: id})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(ids)
	seen := map[uint64]bool{}
	for id := range ids {
		if seen[id] {
			t.Errorf("number %d was given out twice", id)
		}
		seen[id] = true
	}
	if len(seen) != workers*each || !seen[1] || !seen[workers*each] {
		t.Errorf("%d numbers, want 1 to %d", len(seen), workers*each)
	}
	view(t, db, func(tx *store.Tx) error {
		n := 0
		for _, err := range store.Nodes.All(tx) {
			if err != nil {
				return err
			}
			n++
		}
		if n != workers*each {
			t.Errorf("%d nodes, want %d", n, workers*each)
		}
		return nil
	})
}

// TestOneWins holds that of many who want a unique value one gets it, whether
// they share a transaction or not.
func TestOneWins(t *testing.T) {
	db := storetest.Open(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won, conflicts := 0, 0
	for i := range 50 {
		wg.Go(func() {
			err := db.Batch(func(tx *store.Tx) error {
				return store.Nodes.Put(tx, &store.Node{UUID: fmt.Sprint(i), Name: "the-one"})
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if errors.Is(err, store.ErrConflict) {
				conflicts++
			}
		})
	}
	wg.Wait()
	if won != 1 || conflicts != 49 {
		t.Errorf("%d won and %d met a conflict, want 1 and 49", won, conflicts)
	}
}

// TestBatchUndoes holds that a call that fails, or panics, leaves nothing
// behind and spoils nothing for those in the same transaction.
func TestBatchUndoes(t *testing.T) {
	db := storetest.Open(t)
	put(t, db, node(1))
	failure := errors.New("changed my mind")
	var wg sync.WaitGroup
	hold := make(chan struct{})
	wg.Go(func() { // keeps the others waiting, so that they share a transaction
		_ = db.Update(func(*store.Tx) error { <-hold; return nil })
	})
	for i := range 30 {
		wg.Go(func() {
			defer func() {
				if r := recover(); (r != nil) != (i%3 == 2) || r != nil && r != "oops" {
					t.Errorf("call %d: recovered %v", i, r)
				}
			}()
			runs := 0
			err := db.Batch(func(tx *store.Tx) error {
				runs++
				if _, err := tx.NextID("n"); err != nil {
					return err
				}
				if i%3 != 0 { // overwrite, delete, add
					changed := node(1)
					changed.Name = fmt.Sprint("changed", i)
					for _, err := range []error{store.Nodes.Put(tx, changed), store.Nodes.Delete(tx, changed.UUID), store.Nodes.Put(tx, node(500+i))} {
						if err != nil {
							return err
						}
					}
				}
				switch i % 3 {
				case 1:
					return failure
				case 2:
					panic("oops")
				}
				return store.Nodes.Put(tx, node(100+i))
			})
			if i%3 == 1 && !errors.Is(err, failure) || i%3 == 0 && err != nil {
				t.Errorf("call %d: %v", i, err)
			}
			if runs != 1 {
				t.Errorf("call %d ran %d times", i, runs)
			}
		})
	}
	close(hold)
	wg.Wait()
	view(t, db, func(tx *store.Tx) error {
		n := 0
		for v, err := range store.Nodes.All(tx) {
			if err != nil {
				return err
			}
			if v.UUID == node(1).UUID && v.Name != "node-1" {
				t.Errorf("node 1 is called %q", v.Name)
			}
			n++
		}
		if n != 11 {
			t.Errorf("%d nodes, want 11", n)
		}
		return nil
	})
	err := db.Update(func(tx *store.Tx) error {
		id, err := tx.NextID("n")
		if id != 11 {
			t.Errorf("next number = %d, want 11", id)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestUpdateRollsBack(t *testing.T) {
	db := storetest.Open(t)
	failure := errors.New("no")
	err := db.Update(func(tx *store.Tx) error {
		if err := store.Nodes.Put(tx, node(1)); err != nil {
			return err
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("Update = %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = db.Update(func(tx *store.Tx) error {
			if err := store.Nodes.Put(tx, node(1)); err != nil {
				return err
			}
			panic("oops")
		})
		t.Error("the panic was swallowed")
	}()
	put(t, db, node(2)) // the lock was given back
	view(t, db, func(tx *store.Tx) error {
		if _, err := store.Nodes.Get(tx, node(1).UUID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get = %v, want ErrNotFound", err)
		}
		return nil
	})
}

func TestClosed(t *testing.T) {
	db := storetest.Open(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	nothing := func(*store.Tx) error { return nil }
	for name, err := range map[string]error{
		"View": db.View(nothing), "Update": db.Update(nothing), "Batch": db.Batch(nothing), "Flush": db.Flush(),
	} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s = %v, want ErrClosed", name, err)
		}
	}
	db.Record(t.Context(), store.Message{})
	if err := db.Close(); err != nil {
		t.Errorf("second Close = %v", err)
	}
}

// TestNothingToWrite: a Batch that has written nothing does not wait for the
// disk, unless there are messages to be saved.
func TestNothingToWrite(t *testing.T) {
	var commits uint64
	db, err := store.Open(t.TempDir(), store.Options{NoSync: true, Fault: func(n uint64, when store.Moment) error {
		if when == store.AfterWrite {
			commits++
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	nothing := func(*store.Tx) error { return nil }
	before := commits
	if err := db.Batch(nothing); err != nil || commits != before {
		t.Errorf("%d commits for nothing (%v)", commits-before, err)
	}
	db.Record(t.Context(), store.Message{Label: "x"})
	if err := db.Batch(nothing); err != nil || commits != before+1 {
		t.Errorf("%d commits for a message (%v)", commits-before, err)
	}
}
