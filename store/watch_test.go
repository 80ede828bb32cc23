package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"bessemer/store"
	"bessemer/store/storetest"
)

func TestWatch(t *testing.T) {
	db := storetest.Open(t)
	from := db.Position()
	put(t, db, node(1), node(2))
	put(t, db, node(1))
	failed := errors.New("x")
	_ = db.Update(func(tx *store.Tx) error { // not committed, so no change
		if err := store.Nodes.Put(tx, node(3)); err != nil {
			return err
		}
		return failed
	})
	_ = db.Batch(func(tx *store.Tx) error {
		if err := store.Nodes.Put(tx, node(3)); err != nil {
			return err
		}
		return failed
	})
	db.Record(t.Context(), message("x")) // has a stream of its own
	if err := db.Update(func(tx *store.Tx) error { return store.Nodes.Delete(tx, node(2).UUID) }); err != nil {
		t.Fatal(err)
	}
	want := []store.Change{
		{Pos: from + 1, Table: "nodes", Key: node(1).UUID, Rev: 1},
		{Pos: from + 2, Table: "nodes", Key: node(2).UUID, Rev: 1},
		{Pos: from + 3, Table: "nodes", Key: node(1).UUID, Rev: 2},
		{Pos: from + 4, Table: "nodes", Key: node(2).UUID, Deleted: true},
	}
	i := 0
	for c, err := range db.Watch(t.Context(), from) {
		if err != nil || c != want[i] {
			t.Fatalf("change = %+v, %v; want %+v", c, err, want[i])
		}
		if i++; i == len(want) {
			break
		}
	}
	for c, err := range db.Watch(t.Context(), from+3) {
		if err != nil || c != want[3] {
			t.Errorf("resumed: change = %+v, %v; want %+v", c, err, want[3])
		}
		break
	}
}

// TestWatchLive holds that followers, resumed now and then, see every change
// once and in order.
func TestWatchLive(t *testing.T) {
	db := storetest.Open(t)
	from := db.Position()
	const writers, each = 4, 100
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for pos := from; pos < from+writers*each; {
				n := 0
				for c, err := range db.Watch(t.Context(), pos) {
					if err != nil || c.Pos != pos+1 {
						t.Errorf("change = %+v, %v after %d", c, err, pos)
						return
					}
					pos = c.Pos
					if n++; n == 70 || pos == from+writers*each {
						break
					}
				}
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				err := db.Batch(func(tx *store.Tx) error {
					return store.Nodes.Put(tx, &store.Node{UUID: fmt.Sprintf("%d-%d", w, i)})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestWatchEnds(t *testing.T) {
	db := storetest.Open(t)
	last := func(ctx context.Context, after uint64) error {
		for _, err := range db.Watch(ctx, after) {
			return err
		}
		return nil
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := last(cancelled, db.Position()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for _, pos := range []uint64{0, 1, db.Position() + 1, ^uint64(0)} {
		if err := last(t.Context(), pos); !errors.Is(err, store.ErrBehind) {
			t.Errorf("position %d: %v, want ErrBehind", pos, err)
		}
	}
	old := db.Position()
	for range 10 { // more than are kept
		err := db.Update(func(tx *store.Tx) error {
			for range 1000 {
				if err := store.Users.Put(tx, &store.User{Name: "u"}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := last(t.Context(), old); !errors.Is(err, store.ErrBehind) {
		t.Errorf("slow: %v, want ErrBehind", err)
	}
	done := make(chan error)
	go func() { done <- last(t.Context(), db.Position()) }()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, store.ErrClosed) {
		t.Errorf("closed: %v, want ErrClosed", err)
	}
}
