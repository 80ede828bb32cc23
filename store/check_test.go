package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

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
