package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// A Problem is one thing that is wrong with a store.
type Problem struct {
	Table string `json:"table,omitempty"`
	Key   string `json:"key,omitempty"`
	What  string `json:"what"`
}

func (p Problem) String() string {
	switch {
	case p.Table != "":
		return fmt.Sprintf("%s %q: %s", p.Table, p.Key, p.What)
	case p.Key != "":
		return fmt.Sprintf("%q: %s", p.Key, p.What)
	}
	return p.What
}

// problemOf says what is wrong with the value at key.
func problemOf(key []byte, err error) Problem {
	p := Problem{Key: string(key), What: err.Error()}
	if table, rest, ok := splitKey(key, "t/"); ok {
		p.Table, p.Key = table, rest
	}
	return p
}

// splitKey splits a key of the form prefix table "/" rest.
func splitKey(key []byte, prefix string) (table, rest string, ok bool) {
	s, ok := strings.CutPrefix(string(key), prefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(s, "/")
}

// Check looks for all that could be wrong with the store: in the file's
// structure, in the records (each must open, decode and lie under its own
// key), and in the indexes (each entry must point to a record that has the
// value, and each value must have its entry). It may be called while the store
// is in use.
func (db *DB) Check(ctx context.Context) ([]Problem, error) {
	problems, err := db.verify(ctx)
	if err != nil || len(problems) > 0 {
		return problems, err
	}
	c := &checker{ctx: ctx, entries: map[string]int{}, expected: map[string]int{}}
	if err := db.View(c.check); err != nil {
		return c.problems, fmt.Errorf("check store: %w", err)
	}
	return c.problems, nil
}

// verify checks the file's structure; if others write too fast for that, they
// must wait for it.
func (db *DB) verify(ctx context.Context) ([]Problem, error) {
	problems, err := db.space.Verify(ctx)
	if !errors.Is(err, errMoved) {
		return problems, err
	}
	db.writer.Lock()
	defer db.writer.Unlock()
	return db.space.Verify(ctx)
}

// A checkedTable is what Check needs to know of a table.
type checkedTable interface {
	Name() string
	// entriesOf opens a record and returns the index entries it must have.
	entriesOf(tx *Tx, k, raw []byte) ([][]byte, error)
}

// tables are all tables. Records of others are checked as far as that goes
// without knowing them.
var tables = []checkedTable{
	Nodes, Ports, Runs, Messages, Images, ConfigDrives, Leases, DiscoveredMachines, Users, Tokens, Sessions,
}

func tableNamed(name string) checkedTable {
	if i := slices.IndexFunc(tables, func(t checkedTable) bool { return t.Name() == name }); i >= 0 {
		return tables[i]
	}
	return nil
}

func (t *Table[T]) entriesOf(tx *Tx, k, raw []byte) ([][]byte, error) {
	v, err := t.decodeAnew(tx, k, raw)
	if err != nil {
		return nil, err
	}
	key := string(k[len(t.recordKey("")):])
	if own := t.key(v); own != key {
		return nil, fmt.Errorf("%w: it is the record of %q", ErrCorrupt, own)
	}
	var entries [][]byte
	for _, x := range t.indexes {
		for _, value := range x.values(v) {
			e := t.indexKey(x.name, value, key)
			if !slices.ContainsFunc(entries, func(o []byte) bool { return bytes.Equal(o, e) }) {
				entries = append(entries, e)
			}
		}
	}
	return entries, nil
}

// A checker goes once over all keys; they come in the order i/, m/, s/, t/.
type checker struct {
	ctx      context.Context
	entries  map[string]int // index entries by table, as found
	expected map[string]int // and as the records ask for
	problems []Problem
}

func (c *checker) report(key []byte, err error) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, problemOf(key, err))
	}
}

func (c *checker) check(tx *Tx) error {
	for k, raw := range tx.tx.Scan(nil, nil) {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.checkKey(tx, k, raw); err != nil {
			c.report(k, err)
		}
	}
	for _, t := range tables {
		if c.entries[t.Name()] != c.expected[t.Name()] {
			c.findStrays(tx, t)
		}
	}
	return nil
}

func (c *checker) checkKey(tx *Tx, k, raw []byte) error {
	switch prefix := string(k[:min(2, len(k))]); {
	case prefix == "i/":
		table, _, _ := splitKey(k, "i/")
		c.entries[table]++
		_, err := checkSum(k, raw)
		return err
	case prefix == "t/":
		return c.checkRecord(tx, k, raw)
	case bytes.Equal(k, schemaKey):
		_, err := readSchema(tx.tx)
		return err
	case bytes.Equal(k, restoredKey):
		_, _, err := tx.Restored()
		return err
	case prefix == "s/", bytes.Equal(k, keyCheckKey):
		_, err := tx.db.seal.open(k, raw)
		return err
	}
	return errors.New("nothing is known under this key")
}

func (c *checker) checkRecord(tx *Tx, k, raw []byte) error {
	name, _, _ := splitKey(k, "t/")
	t := tableNamed(name)
	if t == nil {
		plain, err := tx.db.seal.open(k, raw)
		if err == nil && !json.Valid(plain) {
			err = fmt.Errorf("%w: it is not JSON", ErrCorrupt)
		}
		return err
	}
	entries, err := t.entriesOf(tx, k, raw)
	if err != nil {
		return err
	}
	for _, e := range entries {
		c.expected[name]++
		if tx.tx.Get(e) == nil {
			c.report(k, fmt.Errorf("index entry %q is missing", e))
		}
	}
	return nil
}

// findStrays reports the index entries of a table that no record asks for.
func (c *checker) findStrays(tx *Tx, t checkedTable) {
	for e := range tx.tx.Scan([]byte("i/"+t.Name()+"/"), nil) {
		_, key, _ := bytes.Cut(e, []byte{0})
		k := []byte("t/" + t.Name() + "/" + string(key))
		raw := tx.tx.Get(k)
		if raw == nil {
			c.report(k, fmt.Errorf("index entry %q points to it but it is not there", e))
			continue
		}
		entries, err := t.entriesOf(tx, k, raw)
		if err == nil && !slices.ContainsFunc(entries, func(o []byte) bool { return bytes.Equal(o, e) }) {
			c.report(k, fmt.Errorf("index entry %q points to it but it has another value", e))
		}
	}
}

// CheckFile is [DB.Check] for the store in dir while nobody uses it, with the
// engine's own check as well. It changes nothing.
func CheckFile(ctx context.Context, dir string) ([]Problem, error) {
	path := filepath.Join(dir, dbFile)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("check store: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	key, err := loadKey(dir)
	if err != nil {
		return nil, err
	}
	return checkFile(ctx, path, key)
}

// checkFile checks the store file at path, which nobody has open, against the
// secret key.
func checkFile(ctx context.Context, path string, key []byte) ([]Problem, error) {
	problems, err := verifyFile(ctx, path)
	if err != nil || len(problems) > 0 {
		return problems, err
	}
	seal, err := newSealer(key)
	if err != nil {
		return nil, err
	}
	s, err := openBolt(path, bolt.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	db := newDB(s, seal)
	problems, err = db.checkClosed(ctx)
	return problems, errors.Join(err, s.Close())
}

func (db *DB) checkClosed(ctx context.Context) ([]Problem, error) {
	err := db.space.View(func(tx spaceTx) error {
		have, err := readSchema(tx)
		if err != nil {
			return err
		}
		if want := 1 + len(migrations); have > want {
			return fmt.Errorf("store has schema %d, this version knows up to %d: %w", have, want, ErrSchema)
		}
		return db.checkKey(tx)
	})
	if err != nil {
		return nil, err
	}
	return db.Check(ctx)
}
