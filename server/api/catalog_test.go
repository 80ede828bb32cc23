package api

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"bessemer/store"
	"bessemer/store/storetest"
)

// TestCatalogFollowsTheStore through changes of all kinds, and when it has
// missed more of them than are remembered.
func TestCatalogFollowsTheStore(t *testing.T) {
	db := storetest.Open(t)
	k := newCatalog(store.Nodes, nodes)
	rnd := rand.New(rand.NewPCG(7, 7))
	born := time.Now()
	there := map[string]*store.Node{}
	for round := range 300 {
		n := rnd.IntN(4)
		if round == 200 {
			n = 9000 // beyond the feed
		}
		err := db.Update(func(tx *store.Tx) error {
			for range n {
				id := fmt.Sprintf("id-%d", rnd.IntN(40))
				switch old := there[id]; {
				case old == nil:
					there[id] = &store.Node{UUID: id, CreatedAt: born.Add(time.Duration(rnd.IntN(20)) * time.Second)}
				case rnd.IntN(3) == 0:
					delete(there, id)
					if err := store.Nodes.Delete(tx, id); err != nil {
						return err
					}
					continue
				case rnd.IntN(8) == 0:
					old.CreatedAt = old.CreatedAt.Add(time.Minute)
				default:
					old.Description = fmt.Sprint("round ", round)
				}
				if err := store.Nodes.Put(tx, there[id]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if rnd.IntN(3) == 0 && round != 200 {
			continue // more changes at once
		}
		got, err := k.list(db)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(there) || !slices.IsSortedFunc(got, nodes.compare(page{})) {
			t.Fatalf("round %d: %d records, want %d in order", round, len(got), len(there))
		}
		for _, v := range got {
			if want := there[v.UUID]; want == nil || v.Description != want.Description || !v.CreatedAt.Equal(want.CreatedAt) {
				t.Fatalf("round %d: %+v, want %+v", round, v, want)
			}
		}
	}
}

// BenchmarkListNodes is a page of a list of 10,000 nodes, 50 of which have
// changed since the page before.
func BenchmarkListNodes(b *testing.B) {
	g := newRig(b, "none")
	put := func(from, to int) {
		err := g.db.Update(func(tx *store.Tx) error {
			for i := from; i < to; i++ {
				err := store.Nodes.Put(tx, &store.Node{
					UUID: fmt.Sprintf("11111111-2222-4333-8444-%012d", i), Driver: "fake-hardware", ProvisionState: store.Available,
					CreatedAt: time.Unix(int64(i), 0), Properties: map[string]any{"cpus": 64, "memory_mb": 1 << 20}, Description: fmt.Sprint(b.N),
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	put(0, 10_000)
	for _, path := range []string{
		"/v1/nodes?limit=100", "/v1/nodes?limit=100&marker=11111111-2222-4333-8444-000000005000", "/v1/nodes?limit=100&sort_key=name&sort_dir=desc",
		"/v1/nodes?limit=100&provision_state=active", "/v1/nodes/detail?limit=100",
	} {
		b.Run(path, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				put(i%100*50, i%100*50+50)
				b.StartTimer()
				if a := g.ask("1.82", "GET", path, ""); a.code != 200 {
					b.Fatalf("%d %s", a.code, a.body)
				}
			}
		})
	}
}
