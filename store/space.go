package store

import "iter"

// A space is an ordered key-value space with transactions. It is all that the
// rest of the package knows of the engine behind it.
type space interface {
	View(func(spaceTx) error) error
	Update(func(spaceTx) error) error
	// Batch is Update for many callers at once; fn may run twice.
	Batch(func(spaceTx) error) error
	Close() error
}

// A spaceTx is one transaction. Slices it gives out are valid until it ends.
type spaceTx interface {
	Get(key []byte) []byte
	Put(key, value []byte) error
	Delete(key []byte) error
	// Scan yields the keys that begin with prefix, from start on, in order.
	Scan(prefix, start []byte) iter.Seq2[[]byte, []byte]
}
