package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// TestCheck damages a store in ways that its own methods never would, with
// good checksums, and holds that each is found.
func TestCheck(t *testing.T) {
	db := openTest(t, t.TempDir())
	n := &Node{UUID: "n", Name: "name"}
	key, index := Nodes.recordKey("n"), Nodes.indexKey("name", "name", "n")
	seal := func(k []byte, plain string) []byte { return db.seal.seal(k, 1, []byte(plain)) }
	put := func(k, v []byte) func(spaceTx) error { return func(tx spaceTx) error { return tx.Put(k, v) } }
	del := func(k []byte) func(spaceTx) error { return func(tx spaceTx) error { return tx.Delete(k) } }
	stray := Nodes.indexKey("name", "other", "n")
	orphan := Nodes.indexKey("name", "name2", "gone")
	for _, tt := range []struct {
		name   string
		damage func(spaceTx) error
		undo   func(spaceTx) error
		want   string
	}{
		{"index entry missing", del(index), put(index, withSum(index, nil)), "missing"},
		{"index entry of another value", put(stray, withSum(stray, nil)), del(stray), "another value"},
		{"index entry of no record", put(orphan, withSum(orphan, nil)), del(orphan), "not there"},
		{"record not JSON", put(key, seal(key, "x")), nil, "damaged"},
		{"record of another type", put(key, seal(key, `{"uuid":7}`)), nil, "damaged"},
		{"record under another key", put(key, seal(key, `{"uuid":"m"}`)), nil, `record of "m"`},
		{"record not sealed", put(key, withSum(key, make([]byte, 100))), nil, "newer version"},
		{"unknown key", put([]byte("x/y"), withSum([]byte("x/y"), nil)), del([]byte("x/y")), "nothing is known"},
		{"sequence", put([]byte("s/x"), withSum([]byte("s/x"), make([]byte, 40))), del([]byte("s/x")), "newer version"},
		{"record of an unknown table", put([]byte("t/x/y"), seal([]byte("t/x/y"), "{")), del([]byte("t/x/y")), "not JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := db.Update(func(tx *Tx) error { return Nodes.Put(tx, n) }); err != nil {
				t.Fatal(err)
			}
			wantProblems(t, db, "")
			if err := db.space.Update(tt.damage); err != nil {
				t.Fatal(err)
			}
			wantProblems(t, db, tt.want)
			undo := tt.undo
			if undo == nil {
				raw, err := json.Marshal(n)
				if err != nil {
					t.Fatal(err)
				}
				undo = put(key, seal(key, string(raw)))
			}
			if err := db.space.Update(undo); err != nil {
				t.Fatal(err)
			}
			wantProblems(t, db, "")
		})
	}
	t.Run("a reader is told of a stale index", func(t *testing.T) {
		if err := db.space.Update(put(orphan, withSum(orphan, nil))); err != nil {
			t.Fatal(err)
		}
		err := db.View(func(tx *Tx) error {
			_, err := Nodes.By(tx, "name", "name2")
			return err
		})
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("By = %v, want ErrCorrupt", err)
		}
	})
}

func wantProblems(t *testing.T, db *DB, want string) {
	t.Helper()
	problems, err := db.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want == "" && len(problems) > 0 || want != "" && !strings.Contains(fmt.Sprint(problems), want) {
		t.Errorf("problems = %v, want %q", problems, want)
	}
}

// TestCheckWhileWriting holds that Check finds nothing wrong with a store that
// is being written to.
func TestCheckWhileWriting(t *testing.T) {
	db := openTest(t, t.TempDir())
	done := make(chan error)
	go func() {
		for i := range 300 {
			err := db.Update(func(tx *Tx) error {
				return Nodes.Put(tx, &Node{UUID: fmt.Sprint(i % 40), Name: fmt.Sprint("n", i), Description: strings.Repeat("x", 20*i)})
			})
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		wantProblems(t, db, "")
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

// TestAllTablesAreChecked reads the package's source: every table that is
// defined must be in the list that Check goes by.
func TestAllTablesAreChecked(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	defined := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "NewTable" {
				lit, ok := call.Args[0].(*ast.BasicLit)
				if !ok || tableNamed(strings.Trim(lit.Value, `"`)) == nil {
					t.Errorf("%s: table %s is not in tables", name, lit.Value)
				}
				defined++
			}
			return true
		})
	}
	if defined != len(tables) {
		t.Errorf("%d tables are defined and %d are checked", defined, len(tables))
	}
}

// TestCopies fills every field of the cached types and holds that a copy is
// equal and shares nothing.
func TestCopies(t *testing.T) {
	checkCopy[Node](t)
	checkCopy[Port](t)
	checkCopy[User](t)
	checkCopy[Token](t)
	checkCopy[Run](t)
	checkCopy[Message](t)
}

func checkCopy[T any](t *testing.T) {
	t.Helper()
	v, want := new(T), new(T)
	populate(reflect.ValueOf(v).Elem(), 0)
	populate(reflect.ValueOf(want).Elem(), 0)
	c := copierOf[T]()(v)
	if diff := cmp.Diff(v, c); diff != "" {
		t.Errorf("copy of %T differs:\n%s", v, diff)
	}
	overwrite(reflect.ValueOf(c).Elem())
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("the copy of %T shares with the original:\n%s", v, diff)
	}
}

// populate gives v and all in it a value.
func populate(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		populate(v.Elem(), depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		populate(v.Index(0), depth)
		populate(v.Index(1), depth)
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		populate(e, depth)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), e)
	case reflect.Interface:
		v.Set(reflect.ValueOf(map[string]any{"a": []any{"b", map[string]any{"c": 1.0}}, "n": nil}))
	case reflect.Struct:
		if v.Type() == timeType {
			v.Set(reflect.ValueOf(time.Unix(7, 0).UTC()))
			return
		}
		for i := range v.NumField() {
			populate(v.Field(i), depth+1)
		}
	}
}

// overwrite changes everything that v refers to, in place.
func overwrite(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Elem().SetZero()
	case reflect.Slice:
		for i := range v.Len() {
			overwrite(v.Index(i))
			v.Index(i).SetZero()
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			overwrite(v.MapIndex(k))
			v.SetMapIndex(k, reflect.Zero(v.Type().Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			overwrite(v.Elem())
		}
	case reflect.Struct:
		if v.Type() != timeType {
			for i := range v.NumField() {
				overwrite(v.Field(i))
			}
		}
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
