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
	// ErrCorrupt is returned for a record or file that is damaged.
	ErrCorrupt = errors.New("damaged")
	// ErrLocked is returned when another process has the store open.
	ErrLocked = errors.New("in use by another process")
	// ErrSchema is returned for a store written by a newer version.
	ErrSchema = errors.New("written by a newer version")
)

// A KeyError says which record of which table an error is about.
type KeyError struct {
	Table, Index, Key string
	Holder            string // on a conflict, the key of the record that has the value
	Err               error
}

func (e *KeyError) Error() string {
	if e.Index != "" {
		return fmt.Sprintf("%s with %s %q: %v", e.Table, e.Index, e.Key, e.Err)
	}
	return fmt.Sprintf("%s %q: %v", e.Table, e.Key, e.Err)
}

func (e *KeyError) Unwrap() error { return e.Err }
