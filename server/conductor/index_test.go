package conductor

import (
	"errors"
	"testing"

	"bessemer/store"
	"bessemer/store/storetest"
)

// TestIndexIsNotSetBack by whoever reads a node while a run saves it: what is
// saved last is what stays.
func TestIndexIsNotSetBack(t *testing.T) {
	tests := []struct {
		name string
		save func(x *index, db *store.DB, save func(during func()) (*store.Node, uint64))
	}{
		{"read before the save, taken up after it", func(x *index, db *store.DB, save func(func()) (*store.Node, uint64)) {
			read, err := readBootNode(db, testNode)
			if err != nil {
				t.Fatal(err)
			}
			n, rev := save(func() {})
			x.follow(n, &store.Run{}, rev)
			if x.replace(testNode, read) {
				t.Error("an older reading was taken up")
			}
		}},
		{"read while the save is on its way to the disk", func(x *index, db *store.DB, save func(func()) (*store.Node, uint64)) {
			n, rev := save(func() {
				if _, err := x.reload(db, testNode); err != nil {
					t.Fatal(err)
				}
			})
			x.follow(n, &store.Run{}, rev)
		}},
		{"read after the save, which is followed late", func(x *index, db *store.DB, save func(func()) (*store.Node, uint64)) {
			n, rev := save(func() {})
			late := *n
			late.ProvisionState = store.Deploying
			save(func() {})
			if _, err := x.reload(db, testNode); err != nil {
				t.Fatal(err)
			}
			x.follow(&late, &store.Run{}, rev)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db, x := storetest.Open(t), newIndex()
			if err := errors.Join(putState(db, store.Available), x.load(db)); err != nil {
				t.Fatal(err)
			}
			tt.save(x, db, func(during func()) (n *store.Node, rev uint64) {
				err := db.Batch(func(tx *store.Tx) (err error) {
					n = &store.Node{UUID: testNode, ProvisionState: store.Active}
					if err := store.Nodes.Put(tx, n); err != nil {
						return err
					}
					during()
					rev, err = store.Nodes.Rev(tx, n.UUID)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return n, rev
			})
			if got, _ := x.get(testNode); got.state != store.Active {
				t.Errorf("the index says %q", got.state)
			}
		})
	}
}

func putState(db *store.DB, s store.ProvisionState) error {
	return db.Update(func(tx *store.Tx) error {
		return store.Nodes.Put(tx, &store.Node{UUID: testNode, ProvisionState: s})
	})
}
