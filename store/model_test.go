package store_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"bessemer/store"
	"bessemer/store/storetest"
)

// TestModel does at random what users of a store do and compares it with a
// map; every so often the store is checked, or closed and opened anew.
func TestModel(t *testing.T) {
	dir := t.TempDir()
	db := storetest.OpenDir(t, dir)
	r := rand.New(rand.NewPCG(7, 7))
	model := map[string]*store.Node{}
	for round := range 60 {
		err := db.Update(func(tx *store.Tx) error {
			for range r.IntN(200) {
				if err := step(tx, r, model); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		switch round % 10 {
		case 3:
			if problems, err := db.Check(t.Context()); err != nil || len(problems) > 0 {
				t.Fatalf("round %d: %v, %v", round, problems, err)
			}
		case 7:
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = storetest.OpenDir(t, dir)
		}
		compare(t, db, model)
	}
}

// step puts or deletes a node. Values go from some bytes to several pages.
func step(tx *store.Tx, r *rand.Rand, model map[string]*store.Node) error {
	key := fmt.Sprintf("%04d", r.IntN(1500))
	if _, ok := model[key]; ok && r.IntN(3) == 0 {
		delete(model, key)
		return store.Nodes.Delete(tx, key)
	}
	n := &store.Node{
		UUID: key, Name: fmt.Sprint(key, "-", r.IntN(3)),
		ProvisionState: []store.ProvisionState{store.Active, store.Available, store.Enroll}[r.IntN(3)],
		Description:    strings.Repeat("x", 1<<r.IntN(15)),
	}
	model[key] = n
	return store.Nodes.Put(tx, n)
}

func compare(t *testing.T, db *store.DB, model map[string]*store.Node) {
	t.Helper()
	view(t, db, func(tx *store.Tx) error {
		seen := 0
		for n, err := range store.Nodes.All(tx) {
			if err != nil {
				return err
			}
			want := model[n.UUID]
			if want == nil || n.Name != want.Name || n.ProvisionState != want.ProvisionState || n.Description != want.Description {
				t.Fatalf("node %s is not as it was put", n.UUID)
			}
			seen++
		}
		active := 0
		for n, err := range store.Nodes.Where(tx, "provision_state", string(store.Active)) {
			if err != nil {
				return err
			}
			if n.ProvisionState != store.Active {
				t.Fatalf("node %s is %s, found as active", n.UUID, n.ProvisionState)
			}
			active++
		}
		for _, n := range model {
			if n.ProvisionState == store.Active {
				active--
			}
		}
		if seen != len(model) || active != 0 {
			t.Fatalf("%d nodes, want %d; %d active ones too many", seen, len(model), active)
		}
		return nil
	})
}
