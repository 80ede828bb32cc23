package store

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"time"

	bolt "go.etcd.io/bbolt"
)

var boltBucket = []byte("bessemer")

// boltSpace is the space in one bbolt file. No other file knows of bbolt.
type boltSpace struct{ db *bolt.DB }

func openBolt(path string, noSync bool) (*boltSpace, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: 200 * time.Millisecond, NoSync: noSync})
	if errors.Is(err, bolt.ErrTimeout) {
		return nil, fmt.Errorf("open store %s: %w", path, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(boltBucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &boltSpace{db}, nil
}

func (s *boltSpace) View(fn func(spaceTx) error) error {
	return s.db.View(func(tx *bolt.Tx) error { return fn(boltTx{tx.Bucket(boltBucket)}) })
}

func (s *boltSpace) Update(fn func(spaceTx) error) error {
	return s.db.Update(func(tx *bolt.Tx) error { return fn(boltTx{tx.Bucket(boltBucket)}) })
}

func (s *boltSpace) Batch(fn func(spaceTx) error) error {
	return s.db.Batch(func(tx *bolt.Tx) error { return fn(boltTx{tx.Bucket(boltBucket)}) })
}

func (s *boltSpace) Close() error { return s.db.Close() }

type boltTx struct{ b *bolt.Bucket }

func (t boltTx) Get(key []byte) []byte       { return t.b.Get(key) }
func (t boltTx) Put(key, value []byte) error { return t.b.Put(key, value) }
func (t boltTx) Delete(key []byte) error     { return t.b.Delete(key) }

func (t boltTx) Scan(prefix, start []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		c := t.b.Cursor()
		if bytes.Compare(start, prefix) < 0 {
			start = prefix
		}
		for k, v := c.Seek(start); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			if !yield(k, v) {
				return
			}
		}
	}
}
