package store_test

import (
	"context"
	"fmt"
	"testing"

	"bessemer/store"
)

func openBench(b *testing.B, o store.Options) *store.DB {
	b.Helper()
	db, err := store.Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	return db
}

func BenchmarkList1000Nodes(b *testing.B) {
	db := openBench(b, store.Options{NoSync: true})
	err := db.Update(func(tx *store.Tx) error {
		for i := range 1000 {
			if err := store.Nodes.Put(tx, node(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		err := db.View(func(tx *store.Tx) error {
			for _, err := range store.Nodes.All(tx) {
				if err != nil {
					return err
				}
				n++
			}
			return nil
		})
		if err != nil || n != 1000 {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkGetNode(b *testing.B) {
	db := openBench(b, store.Options{NoSync: true})
	if err := db.Update(func(tx *store.Tx) error { return store.Nodes.Put(tx, node(1)) }); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		err := db.View(func(tx *store.Tx) error {
			_, err := store.Nodes.Get(tx, node(1).UUID)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBatch is many callers who each store a node and wait for the disk.
func BenchmarkBatch(b *testing.B) {
	db := openBench(b, store.Options{})
	b.SetParallelism(100)
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			n := node(i % 1000)
			n.Name = ""
			if err := db.Batch(func(tx *store.Tx) error { return store.Nodes.Put(tx, n) }); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	db := openBench(b, store.Options{})
	for b.Loop() {
		if err := db.Update(func(tx *store.Tx) error { return store.Nodes.Put(tx, node(1)) }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	db := openBench(b, store.Options{NoSync: true})
	ctx := store.WithScope(context.Background(), store.Scope{Trace: store.NewTrace(), Node: node(1).UUID, Run: 1})
	b.ReportAllocs()
	for b.Loop() {
		db.Record(ctx, store.Message{From: store.Conductor, To: store.BMC, Kind: store.Request, Label: store.LabelPowerOff})
	}
}

// BenchmarkOpen is a store of a thousand nodes with a hundred messages each.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	db, err := store.Open(dir, store.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		ctx := store.WithScope(context.Background(), store.Scope{Trace: fmt.Sprint(i), Node: node(i).UUID})
		for range 100 {
			db.Record(ctx, store.Message{
				From: store.Conductor, To: store.BMC, Kind: store.Request, Label: store.LabelPowerOff,
				Wire: &store.Wire{Proto: "redfish", Method: "POST", Path: "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"},
			})
		}
		if err := db.Update(func(tx *store.Tx) error { return store.Nodes.Put(tx, node(i)) }); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		db, err := store.Open(dir, store.Options{NoSync: true})
		if err != nil {
			b.Fatal(err)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
