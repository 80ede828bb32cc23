package store

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// TestFault holds what a failed write transaction leaves: nothing before it,
// all after it, and a store that goes on either way. Who follows the store has
// to read anew where the write may be there.
func TestFault(t *testing.T) {
	for when, there := range map[Moment]bool{BeforeWrite: false, AfterWrite: true} {
		for errno, kind := range map[syscall.Errno]error{syscall.ENOSPC: ErrNoSpace, syscall.EIO: ErrDisk} {
			t.Run(fmt.Sprint(when, errno), func(t *testing.T) {
				on := false
				db, err := Open(t.TempDir(), Options{NoSync: true, Fault: func(_ uint64, w Moment) error {
					if on && w == when {
						return errno
					}
					return nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				put := func(id string) error {
					return db.Batch(func(tx *Tx) error { return Nodes.Put(tx, &Node{UUID: id}) })
				}
				on = true
				before := db.Position()
				if err := put("a"); !errors.Is(err, kind) || !errors.Is(err, errno) {
					t.Errorf("got %v, want %v", err, kind)
				}
				on = false
				if _, _, err := db.ChangesSince(before); errors.Is(err, ErrBehind) != there {
					t.Errorf("changes since: %v, to be read anew: %v", err, there)
				}
				if _, _, err := db.ChangesSince(db.Position()); err != nil {
					t.Errorf("changes since the position now: %v", err)
				}
				if err := put("b"); err != nil {
					t.Errorf("afterwards: %v", err)
				}
				err = db.View(func(tx *Tx) error {
					_, err := Nodes.Get(tx, "a")
					return err
				})
				if (err == nil) != there {
					t.Errorf("what failed is there: %v, want %v", err == nil, there)
				}
			})
		}
	}
}

// TestBoltErrors finds the cause of errors that bbolt tells in words only.
func TestBoltErrors(t *testing.T) {
	err := diskError(boltError(fmt.Errorf("file resize error: %s", error(&wrapped{syscall.ENOSPC}))))
	if !errors.Is(err, ErrNoSpace) {
		t.Errorf("got %v", err)
	}
	for _, other := range []error{nil, errors.New("file resize error: who knows"), errors.New("x: no space left on device")} {
		if got := diskError(boltError(other)); got != other {
			t.Errorf("%v became %v", other, got)
		}
	}
}

type wrapped struct{ error }

func (w *wrapped) Error() string { return "truncate x: " + w.error.Error() }
