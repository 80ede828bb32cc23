package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// dbFile is the name of the store's file in the data directory.
const dbFile = "bessemer.db"

// Options of [Open].
type Options struct {
	NoSync bool // do not wait for the disk; for tests only
	// Salvage opens a store of whose two header pages one is damaged. The
	// last transaction may be lost.
	Salvage bool
	// Fault makes write transactions fail; for tests only.
	Fault Fault
}

// DB is the state store. Its methods may be called by many at once.
type DB struct {
	space space
	seal  *sealer
	cache *cache
	lock  *os.File

	writer   sync.Mutex    // held while a transaction writes
	reserved uint64        // message numbers up to this one may have been given out; guarded by writer
	closed   bool          // guarded by writer
	leading  chan struct{} // holds one while a Batch call leads the others
	queueMu  sync.Mutex
	queue    []*call // Batch calls that wait for a leader
	feed     feed

	mu      sync.Mutex // guards what follows
	seq     uint64     // of the newest message
	pending []pendingMessage
	failed  error // of the last attempt to write messages
	lost    uint64
	watch   map[chan struct{}]struct{}

	wake chan struct{} // tells the message writer that there is work
	quit chan struct{}
	done chan struct{}
}

// Open opens the store in the data directory dir, creating both if need be.
//
// The whole file is verified first, about a second a gigabyte. Errors are
// ErrLocked, ErrCorrupt, ErrKey and ErrSchema.
func Open(dir string, o Options) (*DB, error) {
	return open(dir, o, migrations)
}

func open(dir string, o Options, migrations []migration) (_ *DB, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	if err := sweep(dir); err != nil {
		return nil, err
	}
	space, seal, err := openSpace(dir, o)
	if err != nil {
		return nil, err
	}
	db := newDB(space, seal)
	db.lock = lock
	if err := db.prepare(dir, migrations); err != nil {
		return nil, errors.Join(err, space.Close())
	}
	go db.writeBehind()
	return db, nil
}

// sweep removes what backups and restores that were killed have left in dir.
// The caller holds its lock.
func sweep(dir string) error {
	for _, pattern := range []string{"backup-*.tmp", "restore-*.tmp", "*.backup.new", "." + keyFile + ".*"} {
		names, err := fs.Glob(os.DirFS(dir), pattern)
		for _, name := range names {
			err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
		}
		if err != nil {
			return fmt.Errorf("clear what a killed process has left: %w", err)
		}
	}
	return nil
}

func newDB(space space, seal *sealer) *DB {
	return &DB{
		space: space,
		seal:  seal,
		cache: newCache(),
		feed:  newFeed(uint64(time.Now().UnixMicro())),
		watch: map[chan struct{}]struct{}{},
		wake:  make(chan struct{}, 1),

		leading: make(chan struct{}, 1),
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
	}
}

// openSpace verifies and opens the file in dir, or creates it with its key.
func openSpace(dir string, o Options) (space, *sealer, error) {
	path := filepath.Join(dir, dbFile)
	key, err := keyFor(dir, path)
	if err != nil {
		return nil, nil, err
	}
	seal, err := newSealer(key)
	if err != nil {
		return nil, nil, err
	}
	if !exists(path) {
		if err := createBolt(path, o.NoSync, func(tx spaceTx) error { return fill(tx, seal) }); err != nil {
			return nil, nil, err
		}
	}
	if err := verifyBefore(path, o); err != nil {
		return nil, nil, err
	}
	s, err := openBolt(path, bolt.Options{NoSync: o.NoSync})
	if err != nil || o.Fault == nil {
		return s, seal, err
	}
	return &faultySpace{space: s, fault: o.Fault}, seal, nil
}

func keyFor(dir, path string) ([]byte, error) {
	if exists(path) {
		return loadKey(dir)
	}
	return loadOrCreateKey(dir)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// verifyBefore refuses a damaged file.
func verifyBefore(path string, o Options) error {
	verify := verifyFile
	if o.Salvage {
		verify = verifySalvaged
	}
	problems, err := verify(context.Background(), path)
	if err != nil || len(problems) == 0 {
		return err
	}
	more := ""
	if n := len(problems) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Errorf("store file %s is %w: %s%s: keep a copy of the file, then restore the last backup", path, ErrCorrupt, problems[0], more)
}

// prepare brings the store to this version's schema and reads where its
// messages go on.
func (db *DB) prepare(dir string, migrations []migration) error {
	if err := db.migrate(dir, migrations); err != nil {
		return err
	}
	return db.commit(func(tx *Tx) error {
		n, err := tx.sequence(messageSequence)
		if err != nil {
			return err
		}
		db.seq = n
		return db.reserve(tx, n)
	})
}

// Close writes the messages that are left and closes the store.
func (db *DB) Close() error {
	db.writer.Lock()
	was := db.closed
	db.closed = true
	db.writer.Unlock()
	if was {
		return nil
	}
	close(db.quit)
	<-db.done
	db.writer.Lock()
	defer db.writer.Unlock()
	err := db.commit(db.endSequence)
	db.feed.close()
	return errors.Join(err, db.space.Close(), db.lock.Close())
}

// View runs fn in one read-only transaction. fn should be quick: it holds back
// the reuse of the file's space.
func (db *DB) View(fn func(*Tx) error) error {
	return db.space.View(func(tx spaceTx) error { return fn(&Tx{tx: tx, db: db}) })
}
