package store

import (
	"bytes"
	"sync"
)

// cacheSize is how many decoded records are kept: those of 10,000 nodes and
// their ports, some 2 KiB each.
const cacheSize = 1 << 16

// A cache keeps decoded records, since decoding is most of the cost of a read.
// An entry stands for one sealed value: its nonce is drawn anew each time a
// record is stored, so an entry can only be missing, never stale.
type cache struct {
	mu      sync.RWMutex
	entries map[string]cached
}

type cached struct {
	head [boxAt]byte // version, revision, nonce
	v    any
}

func newCache() *cache { return &cache{entries: map[string]cached{}} }

// get returns what was decoded from the sealed value at k, or nil.
func (c *cache) get(k, body []byte) any {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.entries[string(k)]
	if !ok || !bytes.Equal(e.head[:], body[:boxAt]) {
		return nil
	}
	return e.v
}

func (c *cache) put(k, body []byte, v any) {
	e := cached{v: v}
	copy(e.head[:], body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[string(k)]; !ok && len(c.entries) >= cacheSize {
		for other := range c.entries { // any one
			delete(c.entries, other)
			break
		}
	}
	c.entries[string(k)] = e
}

func (c *cache) drop(k []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, string(k))
}
