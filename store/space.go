package store

import (
	"context"
	"io"
	"iter"
)

// A space is an ordered key-value space with transactions. It is all that the
// rest of the package knows of the engine behind it. Update is never called
// twice at once.
type space interface {
	View(func(spaceTx) error) error
	Update(func(spaceTx) error) error
	// Snapshot writes a consistent copy of the space while it is in use and
	// returns its size in bytes.
	Snapshot(w io.Writer) (int64, error)
	// Verify checks the engine's own structures, the checksum of every value
	// included.
	Verify(ctx context.Context) ([]Problem, error)
	// Trim gives back memory that only saves reading what was read before.
	Trim() error
	Close() error
}

// A spaceTx is one transaction. Slices it gives out are valid until it ends.
type spaceTx interface {
	Get(key []byte) []byte
	Put(key, value []byte) error
	Delete(key []byte) error
	// Scan yields the keys that begin with prefix, from start on, in order.
	Scan(prefix, start []byte) iter.Seq2[[]byte, []byte]
	// ScanBack yields the keys that begin with prefix and lie before end, in
	// reverse order; a nil end is the end of the prefix.
	ScanBack(prefix, end []byte) iter.Seq2[[]byte, []byte]
}
