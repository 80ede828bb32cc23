package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// restoredKey holds a mark in a store that was restored from a backup, until
// somebody has drawn the consequence: what the store says of the world is as
// old as the backup.
var restoredKey = []byte("m/restored")

type restoredRecord struct {
	Backup time.Time `json:"backup"` // when the backup was made
}

// markRestored puts the mark into a store's file that is not in use.
func markRestored(path string, backup time.Time) error {
	s, err := openBolt(path, bolt.Options{})
	if err != nil {
		return err
	}
	err = s.Update(func(tx spaceTx) error {
		raw, err := json.Marshal(restoredRecord{backup})
		if err != nil {
			return err
		}
		return tx.Put(restoredKey, withSum(restoredKey, raw))
	})
	return errors.Join(err, s.Close())
}

// Restored returns when the backup was made that the store was restored from,
// as long as ClearRestored was not called since.
func (tx *Tx) Restored() (backup time.Time, ok bool, err error) {
	value := tx.tx.Get(restoredKey)
	if value == nil {
		return time.Time{}, false, nil
	}
	raw, err := checkSum(restoredKey, value)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("read mark of restore: %w", err)
	}
	var r restoredRecord
	if err := json.Unmarshal(raw, &r); err != nil {
		return time.Time{}, false, fmt.Errorf("read mark of restore: %w: %w", ErrCorrupt, err)
	}
	return r.Backup, true, nil
}

// ClearRestored takes the mark away.
func (tx *Tx) ClearRestored() error { return tx.tx.Delete(restoredKey) }
