package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

var boltBucket = []byte("bessemer")

// boltMap is how much address space the file is mapped into at once, bytes. It
// costs no memory; as long as the file is smaller, a writer that must grow it
// need not wait for readers.
const boltMap = 1 << 30

// boltSpace is the space in one bbolt file. No bbolt type leaves this file.
//
// bbolt keeps no checksums over its pages and maps the file: a damaged pointer
// or a file cut short would end the process by a signal. So the file is
// verified before it is mapped (boltfile.go), and what fails later all the
// same comes back as ErrCorrupt.
type boltSpace struct {
	db   *bolt.DB
	path string
	// Set when a transaction met damage where bbolt does not give back its
	// locks: those who came after would wait for ever.
	noWrites, nothing atomic.Pointer[error]
}

// openBolt maps the file at path, which must have been verified or be new.
func openBolt(path string, o bolt.Options) (*boltSpace, error) {
	o.Timeout = lockPatience
	o.InitialMmapSize = boltMap
	s := &boltSpace{path: path}
	err := guard(func() (err error) {
		s.db, err = bolt.Open(path, 0o600, &o)
		return err
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, lockError(filepath.Dir(path), "", unix.EWOULDBLOCK)
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	s.db.AllocSize = 1 << 20
	return s, nil
}

// createBolt makes a new file at path, with what fill puts into it. The file
// appears whole or not at all.
func createBolt(path string, noSync bool, fill func(spaceTx) error) error {
	tmp := path + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("create store: %w", err)
	}
	s, err := openBolt(tmp, bolt.Options{NoSync: noSync})
	if err != nil {
		return err
	}
	err = s.db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(boltBucket)
		if err != nil {
			return err
		}
		return fill(boltTx{b})
	})
	if err := errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("create store: %w", errors.Join(err, os.Remove(tmp)))
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("create store: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// A boltRun is bbolt's View or Update.
type boltRun func(func(*bolt.Tx) error) error

// run runs fn in a transaction. Damage in a writer ends all writing, damage
// before a transaction has begun ends everything, until the store is opened
// anew.
func (s *boltSpace) run(run boltRun, refuse *atomic.Pointer[error], fn func(*bolt.Tx) error) error {
	for _, p := range []*atomic.Pointer[error]{&s.nothing, refuse} {
		if err := p.Load(); err != nil {
			return *err
		}
	}
	begun, ended := false, false
	err := guard(func() error {
		err := run(func(tx *bolt.Tx) error {
			begun = true
			return fn(tx)
		})
		ended = true
		if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
			return ErrClosed
		}
		return err
	})
	if !ended && err != nil {
		if !begun {
			refuse = &s.nothing
		}
		refuse.CompareAndSwap(nil, &err)
	}
	return err
}

func inBucket(fn func(spaceTx) error) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		b := tx.Bucket(boltBucket)
		if b == nil {
			return fmt.Errorf("%w: its root bucket is missing", ErrCorrupt)
		}
		b.FillPercent = pageFill
		return fn(boltTx{b})
	}
}

// pageFill is how full a page is left when it is split. Most keys are messages and
// their indexes, which only ever grow at the end of their table: what is left
// free would stay free, and half the file with it.
const pageFill = 0.9

// read runs fn in a read transaction. Damage there harms no other.
func (s *boltSpace) read(fn func(*bolt.Tx) error) error {
	return s.run(s.db.View, new(atomic.Pointer[error]), fn)
}

// View implements space.
func (s *boltSpace) View(fn func(spaceTx) error) error { return s.read(inBucket(fn)) }

// Update implements space.
func (s *boltSpace) Update(fn func(spaceTx) error) error {
	return diskError(boltError(s.run(s.db.Update, &s.noWrites, inBucket(fn))))
}

// Snapshot implements space.
func (s *boltSpace) Snapshot(w io.Writer) (n int64, err error) {
	err = s.read(func(tx *bolt.Tx) error {
		n, err = tx.WriteTo(w)
		return err
	})
	return n, err
}

// Verify implements space: first by our own reading of the file, then, when
// nobody writes to it, by bbolt's check. That one would die of some of the
// damage that ours finds, and of a writer beside it.
func (s *boltSpace) Verify(ctx context.Context) (problems []Problem, err error) {
	f, err := os.Open(s.path)
	if err != nil {
		return nil, fmt.Errorf("verify store: %w", err)
	}
	defer f.Close()
	err = s.read(func(tx *bolt.Tx) error {
		problems, err = verifySnapshot(ctx, f, uint64(tx.ID()), tx.Size())
		if err != nil || len(problems) > 0 || !s.db.IsReadOnly() {
			return err
		}
		for err := range tx.Check() {
			problems = append(problems, Problem{What: "bbolt: " + err.Error()})
		}
		return nil
	})
	return problems, err
}

// Close implements space.
func (s *boltSpace) Close() error {
	if s.noWrites.Load() != nil || s.nothing.Load() != nil {
		return nil // bbolt would wait for locks
	}
	return guard(s.db.Close)
}

// A damage is what boltTx panics with when bbolt meets a page that cannot be.
type damage struct{ cause any }

// guard runs fn so that a fault in the mapped file, or bbolt's own panic at a
// page that cannot be, is ErrCorrupt. Other panics are not ours and go on.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case damage:
			err = fmt.Errorf("store file is %w: %v: restore the last backup", ErrCorrupt, r.cause)
		default:
			if !isFault(r) {
				panic(r)
			}
			err = fmt.Errorf("store file is %w: reading it gave %v: restore the last backup", ErrCorrupt, r)
		}
	}()
	return fn()
}

// isFault reports whether a recovered value is a memory fault at an address
// that is not nil: a page of the mapped file that could not be read.
func isFault(r any) bool {
	f, ok := r.(interface{ Addr() uintptr })
	return ok && f.Addr() >= 4096
}

// asDamage turns a panic of bbolt into a damage.
func asDamage() {
	if r := recover(); r != nil {
		panic(damage{r})
	}
}

type boltTx struct{ b *bolt.Bucket }

func (t boltTx) Get(key []byte) []byte {
	defer asDamage()
	return t.b.Get(key)
}

func (t boltTx) Put(key, value []byte) error {
	defer asDamage()
	return t.b.Put(key, value)
}

func (t boltTx) Delete(key []byte) error {
	defer asDamage()
	return t.b.Delete(key)
}

func (t boltTx) Scan(prefix, start []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		if bytes.Compare(start, prefix) < 0 {
			start = prefix
		}
		c := t.b.Cursor()
		k, v := move(func() ([]byte, []byte) { return c.Seek(start) })
		for k != nil && bytes.HasPrefix(k, prefix) {
			if !yield(k, v) {
				return
			}
			k, v = move(c.Next)
		}
	}
}

func (t boltTx) ScanBack(prefix, end []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		if end == nil {
			end = after(prefix)
		}
		c := t.b.Cursor()
		k, v := move(func() ([]byte, []byte) {
			if k, _ := c.Seek(end); k == nil {
				return c.Last()
			}
			return c.Prev()
		})
		for k != nil && bytes.HasPrefix(k, prefix) {
			if !yield(k, v) {
				return
			}
			k, v = move(c.Prev)
		}
	}
}

func move(step func() ([]byte, []byte)) ([]byte, []byte) {
	defer asDamage()
	return step()
}

// after returns the first key behind all keys with the prefix, which must not
// be all 0xff.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return end
}
