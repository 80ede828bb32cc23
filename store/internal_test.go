package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

func openTest(t *testing.T, dir string, migrations ...migration) *DB {
	t.Helper()
	db, err := open(dir, Options{NoSync: true}, migrations)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestSeal(t *testing.T) {
	s, err := newSealer(make([]byte, keyLen))
	if err != nil {
		t.Fatal(err)
	}
	key, plain := []byte("t/nodes/1"), []byte(`{"secret":"x"}`)
	raw := s.seal(key, 7, plain)
	got, err := s.open(key, raw)
	if err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("open = %q, %v", got, err)
	}
	if body, err := checkSealed(key, raw); err != nil || revision(body) != 7 {
		t.Errorf("revision = %v, %v", body, err)
	}
	if bytes.Equal(raw, s.seal(key, 7, plain)) {
		t.Error("sealed twice, looks the same")
	}
	t.Run("any changed bit is found", func(t *testing.T) {
		for i := range len(raw) * 8 {
			bad := bytes.Clone(raw)
			bad[i/8] ^= 1 << (i % 8)
			if _, err := s.open(key, bad); err == nil {
				t.Errorf("bit %d changed, and it opened", i)
			}
		}
	})
	t.Run("a changed header with a good checksum is found", func(t *testing.T) {
		bad := bytes.Clone(raw[:len(raw)-sumLen])
		bad[nonceAt-1]++ // revision
		if _, err := s.open(key, withSum(key, bad)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("open = %v, want ErrCorrupt", err)
		}
	})
	t.Run("moved to another key", func(t *testing.T) {
		if _, err := s.open([]byte("t/nodes/2"), raw); !errors.Is(err, ErrCorrupt) {
			t.Errorf("open = %v, want ErrCorrupt", err)
		}
		moved := withSum([]byte("t/nodes/2"), bytes.Clone(raw[:len(raw)-sumLen]))
		if _, err := s.open([]byte("t/nodes/2"), moved); !errors.Is(err, ErrCorrupt) {
			t.Errorf("open with a good checksum = %v, want ErrCorrupt", err)
		}
	})
	t.Run("a later format", func(t *testing.T) {
		later := bytes.Clone(raw[:len(raw)-sumLen])
		later[0]++
		if _, err := s.open(key, withSum(key, later)); !errors.Is(err, ErrSchema) {
			t.Errorf("open = %v, want ErrSchema", err)
		}
	})
}

func FuzzSealed(f *testing.F) {
	s, err := newSealer(make([]byte, keyLen))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("k"), s.seal([]byte("k"), 1, []byte("x")))
	f.Add([]byte("k"), withSum([]byte("k"), nil))
	f.Add([]byte("k"), []byte{})
	f.Fuzz(func(t *testing.T, key, raw []byte) {
		if plain, err := s.open(key, raw); err == nil && !bytes.Equal(key, []byte("k")) {
			t.Errorf("%q opened under %q as %q", raw, key, plain)
		}
	})
}

// FuzzPages holds that no file makes the verifier fail, and that bbolt can be
// let near what it finds good.
func FuzzPages(f *testing.F) {
	dir := f.TempDir()
	db, err := open(dir, Options{NoSync: true}, nil)
	if err != nil {
		f.Fatal(err)
	}
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(dir, dbFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file[:8*4096], uint32(0), byte(0))
	f.Fuzz(func(t *testing.T, file []byte, at uint32, b byte) {
		if len(file) == 0 || len(file) > 1<<20 {
			return
		}
		file = bytes.Clone(file)
		file[int(at)%len(file)] ^= b
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		problems, err := verifyFile(context.Background(), path)
		if err != nil || len(problems) > 0 {
			return
		}
		s, err := openBolt(path, bolt.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if problems, err := s.Verify(t.Context()); err != nil || len(problems) > 0 {
			t.Errorf("bbolt finds what we did not: %v, %v", problems, err)
		}
	})
}

func TestMigrations(t *testing.T) {
	dir := t.TempDir()
	old := openTest(t, dir)
	err := old.Update(func(tx *Tx) error { return Nodes.Put(tx, &Node{UUID: "n", Description: "old"}) })
	if err := errors.Join(err, old.Close()); err != nil {
		t.Fatal(err)
	}
	rewrite := func(text string) migration {
		return func(tx *Tx) error {
			n, err := Nodes.Get(tx, "n")
			if err != nil {
				return err
			}
			n.Description += text
			return Nodes.Put(tx, n)
		}
	}
	failure := errors.New("cannot")

	t.Run("one that fails changes nothing", func(t *testing.T) {
		_, err := open(dir, Options{NoSync: true}, []migration{rewrite("+1"), func(*Tx) error { return failure }})
		if !errors.Is(err, failure) || !strings.Contains(err.Error(), "from schema 2 to 3") {
			t.Errorf("open = %v", err)
		}
		db := openTest(t, dir)
		wantDescription(t, db, "old")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("all run, in order, once", func(t *testing.T) {
		for range 2 {
			db := openTest(t, dir, rewrite("+1"), rewrite("+2"))
			wantDescription(t, db, "old+1+2")
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("a newer store is refused", func(t *testing.T) {
		if _, err := Open(dir, Options{}); !errors.Is(err, ErrSchema) {
			t.Errorf("Open = %v, want ErrSchema", err)
		}
		if _, err := CheckFile(t.Context(), dir); !errors.Is(err, ErrSchema) {
			t.Errorf("CheckFile = %v, want ErrSchema", err)
		}
	})
	t.Run("the backup from before brings it back", func(t *testing.T) {
		f, err := os.Open(filepath.Join(dir, "before-schema-3.backup"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := Restore(dir, f, RestoreOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		wantDescription(t, openTest(t, dir), "old")
	})
}

func wantDescription(t *testing.T, db *DB, want string) {
	t.Helper()
	err := db.View(func(tx *Tx) error {
		n, err := Nodes.Get(tx, "n")
		if err == nil && n.Description != want {
			t.Errorf("description = %q, want %q", n.Description, want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestScanBack(t *testing.T) {
	db := openTest(t, t.TempDir())
	err := db.space.Update(func(tx spaceTx) error {
		for _, k := range []string{"a/1", "a/2", "a/3", "a0", "z\xff/1", "z\xff/2"} {
			if err := tx.Put([]byte(k), []byte(k)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		prefix, end string
		want        []string
	}{
		{"a/", "", []string{"a/3", "a/2", "a/1"}},
		{"a/", "a/3", []string{"a/2", "a/1"}},
		{"a/", "a/1", nil},
		{"z\xff/", "", []string{"z\xff/2", "z\xff/1"}},
		{"z\xff", "", []string{"z\xff/2", "z\xff/1"}},
		{"y", "", nil},
	} {
		var got []string
		err := db.space.View(func(tx spaceTx) error {
			var end []byte
			if tt.end != "" {
				end = []byte(tt.end)
			}
			for k := range tx.ScanBack([]byte(tt.prefix), end) {
				got = append(got, string(k))
			}
			return nil
		})
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("ScanBack(%q, %q) = %q, %v; want %q", tt.prefix, tt.end, got, err, tt.want)
		}
	}
}

// TestDiskRefuses holds that a refusing disk loses no message and blocks nobody,
// and that all is written once it gives way.
func TestDiskRefuses(t *testing.T) {
	db := openTest(t, t.TempDir())
	good := db.space
	refusal := errors.New("no space left on device")
	db.writer.Lock()
	db.space = refusingSpace{good, refusal}
	db.writer.Unlock()
	seq := db.Record(t.Context(), Message{From: Conductor, To: BMC, Label: "kept"})
	if err := db.Flush(); !errors.Is(err, refusal) {
		t.Errorf("Flush = %v, want the refusal", err)
	}
	if err := db.Update(func(tx *Tx) error { return Nodes.Put(tx, &Node{UUID: "n"}) }); !errors.Is(err, refusal) {
		t.Errorf("Update = %v, want the refusal", err)
	}
	if ms, err := db.MessagesAfter(0, 0, nil); err != nil || len(ms) != 1 {
		t.Errorf("messages = %v, %v; want the one that waits", ms, err)
	}
	db.writer.Lock()
	db.space = good
	db.writer.Unlock()
	if err := db.Flush(); err != nil {
		t.Error(err)
	}
	if ms, err := db.MessagesAfter(0, 0, nil); err != nil || len(ms) != 1 || ms[0].Seq != seq || ms[0].Label != "kept" {
		t.Errorf("messages = %v, %v", ms, err)
	}
}

type refusingSpace struct {
	space
	err error
}

func (r refusingSpace) Update(fn func(spaceTx) error) error {
	return r.space.Update(func(tx spaceTx) error { return errors.Join(fn(tx), r.err) })
}

// TestMessagesFillTheirPages holds the file to what is in it: tables that only
// grow must not leave every page half empty.
func TestMessagesFillTheirPages(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := t.Context()
	var traces []string
	for range 50 {
		traces = append(traces, NewTrace())
	}
	for i := range 20000 {
		db.Record(ctx, Message{Node: fmt.Sprintf("node-%d", i%50), Run: uint64(i % 50), Trace: traces[i%50], Label: "Is it done?"})
		if i%500 == 499 {
			if err := db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var s bolt.BucketStats
	if err := db.space.(*boltSpace).db.View(func(tx *bolt.Tx) error { s = tx.Bucket(boltBucket).Stats(); return nil }); err != nil {
		t.Fatal(err)
	}
	if share := float64(s.LeafInuse) / float64(s.LeafAlloc); share < 0.7 {
		t.Errorf("pages are %.0f %% full", share*100)
	}
}
