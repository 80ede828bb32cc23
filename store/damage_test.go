package store_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bessemer/store"
	"bessemer/store/storetest"
)

// filled makes a store with enough in it to have branch pages, long values, a
// list of free pages, and returns its directory and what is in it.
func filled(t *testing.T) (dir string, want map[string]any) {
	t.Helper()
	dir = t.TempDir()
	db, err := store.Open(dir, store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx := store.WithScope(t.Context(), store.Scope{Trace: "trace", Node: node(1).UUID})
	for i := range 60 {
		db.Record(ctx, store.Message{From: store.Conductor, To: store.BMC, Kind: store.Request, Label: store.LabelPowerOff})
		n := node(i)
		if i%10 == 0 {
			n.Extra = map[string]any{"long": strings.Repeat("x", 20_000)}
		}
		put(t, db, n)
	}
	for i := range 20 {
		err := db.Update(func(tx *store.Tx) error { return store.Nodes.Delete(tx, node(3*i).UUID) })
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	want, err = contents(dir)
	if err != nil || len(want) != 100 {
		t.Fatalf("%d records, %v", len(want), err)
	}
	return dir, want
}

// contents reads all that filled put into a store, in every way there is.
func contents(dir string) (got map[string]any, err error) {
	db, err := store.Open(dir, store.Options{NoSync: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	got = map[string]any{}
	err = db.View(func(tx *store.Tx) error {
		for n, err := range store.Nodes.All(tx) {
			if err != nil {
				return err
			}
			got[n.UUID] = n
			again, err := store.Nodes.By(tx, "name", n.Name)
			if err != nil || again.UUID != n.UUID {
				return fmt.Errorf("By = %v, %w", again, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	ms, err := db.TraceMessages("trace", 0, 0, nil)
	for _, m := range ms {
		got[fmt.Sprint(m.Seq)] = m
	}
	return got, err
}

// spoil opens copies of a store after its file was changed, and holds that
// each change is either refused or did no harm.
func spoil(t *testing.T, rounds int, change func(r *rand.Rand, file []byte) []byte) {
	t.Helper()
	dir, want := filled(t)
	good, err := os.ReadFile(filepath.Join(dir, "bessemer.db"))
	if err != nil {
		t.Fatal(err)
	}
	good = good[:used(good)]
	r := rand.New(rand.NewPCG(1, uint64(rounds)))
	refused := 0
	for i := range rounds {
		bad := change(r, append([]byte(nil), good...))
		if err := os.WriteFile(filepath.Join(dir, "bessemer.db"), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := contents(dir)
		switch {
		case errors.Is(err, store.ErrCorrupt):
			refused++
		case err != nil:
			t.Fatalf("round %d: %v", i, err)
		default:
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("round %d: damage was served (-want +got):\n%.2000s", i, diff)
			}
		}
	}
	t.Logf("%d of %d refused, the others did no harm", refused, rounds)
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// used is how many bytes of a store's file are in use: what its header pages
// say.
func used(file []byte) int {
	pages := uint64(0)
	for _, at := range []int{0, 4096} {
		pages = max(pages, binary.NativeEndian.Uint64(file[at+16+40:]))
	}
	return int(pages) * 4096
}

func TestBitFlips(t *testing.T) {
	spoil(t, 100, func(r *rand.Rand, b []byte) []byte {
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		return b
	})
}

// TestBitFlipsInHeaders flips bits where they hurt most: in the first bytes of
// pages.
func TestBitFlipsInHeaders(t *testing.T) {
	spoil(t, 100, func(r *rand.Rand, b []byte) []byte {
		b[r.IntN(len(b)/4096)*4096+r.IntN(64)] ^= 1 << r.IntN(8)
		return b
	})
}

func TestZeroedPages(t *testing.T) {
	spoil(t, 100, func(r *rand.Rand, b []byte) []byte {
		clear(b[r.IntN(len(b)/4096)*4096:][:4096])
		return b
	})
}

func TestSwappedPages(t *testing.T) {
	spoil(t, 100, func(r *rand.Rand, b []byte) []byte {
		a, c := b[r.IntN(len(b)/4096)*4096:][:4096], b[r.IntN(len(b)/4096)*4096:][:4096]
		keep := append([]byte(nil), a...)
		copy(a, c)
		copy(c, keep)
		return b
	})
}

func TestTruncations(t *testing.T) {
	spoil(t, 60, func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] })
}

func TestGarbage(t *testing.T) {
	spoil(t, 30, func(r *rand.Rand, b []byte) []byte {
		for i := range b[:r.IntN(len(b))] {
			b[i] = byte(r.Uint32())
		}
		return b
	})
}

// TestTruncatedWhileOpen cuts the mapped file: the process must live, and say
// what happened.
func TestTruncatedWhileOpen(t *testing.T) {
	dir, _ := filled(t)
	db, err := store.Open(dir, store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "bessemer.db"), 0); err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *store.Tx) error {
		for _, err := range store.Nodes.All(tx) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("View = %v, want ErrCorrupt", err)
	}
	for range 2 {
		err = db.Update(func(tx *store.Tx) error { return store.Nodes.Put(tx, node(1)) })
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Update = %v, want ErrCorrupt", err)
		}
		err = db.Batch(func(tx *store.Tx) error { return store.Nodes.Put(tx, node(1)) })
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Batch = %v, want ErrCorrupt", err)
		}
	}
	if err := db.Close(); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Close = %v, want ErrCorrupt", err)
	}
}

func TestSalvage(t *testing.T) {
	dir, _ := filled(t)
	path := filepath.Join(dir, "bessemer.db")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[4096+16+20]++ // in the second header page
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(dir, store.Options{}); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "header page 1") {
		t.Fatalf("Open = %v, want ErrCorrupt for header page 1", err)
	}
	db, err := store.Open(dir, store.Options{Salvage: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	storetest.OpenDir(t, dir)
}

func TestDamageIsExplained(t *testing.T) {
	dir, _ := filled(t)
	path := filepath.Join(dir, "bessemer.db")
	if err := os.Truncate(path, 3*4096); err != nil {
		t.Fatal(err)
	}
	_, err := store.Open(dir, store.Options{})
	if err == nil {
		t.Fatal("a store cut short was opened")
	}
	for _, want := range []string{path, "cut short", "restore"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	problems, err := store.CheckFile(context.Background(), dir)
	if err != nil || len(problems) == 0 {
		t.Errorf("CheckFile = %v, %v; want problems", problems, err)
	}
}
