package store

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFound is returned when no record has the given key.
	ErrNotFound = errors.New("not found")
	// ErrConflict is returned when a record would break a unique index.
	ErrConflict = errors.New("already in use")
	// ErrBadKey is returned for a key or index value that cannot be stored:
	// empty, with a NUL in it, or too long.
	ErrBadKey = errors.New("not a possible key")
)

var (
	// ErrCorrupt is returned for a record or file that is damaged.
	ErrCorrupt = errors.New("damaged")
	// ErrLocked is returned when another process has the store open.
	ErrLocked = errors.New("in use by another process")
	// ErrSchema is returned for a store written by a newer version.
	ErrSchema = errors.New("written by a newer version")
	// ErrKey is returned when the store's secret key is missing or is not the
	// one that its records were sealed with.
	ErrKey = errors.New("secret key missing or wrong")
	// ErrExists is returned when a restore would overwrite a store.
	ErrExists = errors.New("there is a store already")
	// ErrClosed is returned once the store has been closed.
	ErrClosed = errors.New("store is closed")
	// ErrNoSpace is returned when the disk has no room for what is written.
	ErrNoSpace = errors.New("no space left on the disk")
	// ErrDisk is returned when the disk refuses to write for another reason.
	ErrDisk = errors.New("the disk does not take it")
	// ErrBehind ends a watch whose position has been forgotten: read the
	// records anew and watch from there.
	ErrBehind = errors.New("watch position is no longer kept")
)

// A KeyError says which record of which table an error is about.
type KeyError struct {
	Table, Index, Key string
	Holder            string // on a conflict, the key of the record that has the value
	Err               error
}

func (e *KeyError) Error() string {
	key := e.Key
	if len(key) > 100 {
		key = key[:100] + "..."
	}
	if e.Index != "" {
		return fmt.Sprintf("%s with %s %q: %v", e.Table, e.Index, key, e.Err)
	}
	return fmt.Sprintf("%s %q: %v", e.Table, key, e.Err)
}

func (e *KeyError) Unwrap() error { return e.Err }
