package rack

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
)

// random returns dice for one purpose of a machine: the rack's seed, the
// machine's index and the purpose fix what they show.
func (m *Machine) random(purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose)) // a hash takes all
	return rand.New(rand.NewPCG(m.rack.opts.Seed, h.Sum64()^uint64(m.index)<<40))
}

// dice are random as numbers from 0 to below 1, for several goroutines.
func (m *Machine) dice(purpose string) func() float64 {
	var mu sync.Mutex
	r := m.random(purpose)
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	}
}
