package flaw

import (
	"cmp"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
)

// A Set is what is wrong with one machine now. It may be used by many at once;
// a nil Set is of a machine with which nothing is wrong.
type Set struct {
	seed uint64

	mu     sync.Mutex
	dice   map[Kind]*rand.Rand // each kind's own: what befalls one part does not change another's luck
	quirks map[ID]bool
	faults []*active
	hits   map[Kind]int
}

// active is a fault and its events so far.
type active struct {
	Fault
	events, hits int
}

// NewSet returns a set whose dice are fixed by seed.
func NewSet(seed uint64, quirks ...ID) *Set {
	s := &Set{seed: seed, dice: map[Kind]*rand.Rand{}, quirks: map[ID]bool{}, hits: map[Kind]int{}}
	s.Turn(true, quirks...)
	return s
}

// On reports whether a quirk is on.
func (s *Set) On(id ID) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quirks[id]
}

// Turn turns quirks on or off.
func (s *Set) Turn(on bool, ids ...ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if on {
			s.quirks[id] = true
		} else {
			delete(s.quirks, id)
		}
	}
}

// Quirks lists the quirks that are on.
func (s *Set) Quirks() []ID {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []ID
	for id := range s.quirks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Inject adds a fault; one of the same kind is replaced.
func (s *Set) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(f.Kind)
	s.faults = append(s.faults, &active{Fault: f})
}

// Heal ends the faults of the given kinds, or all when none is given.
func (s *Set) Heal(kinds ...Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(kinds) == 0 {
		s.faults = nil
	}
	for _, k := range kinds {
		s.remove(k)
	}
}

func (s *Set) remove(k Kind) {
	s.faults = slices.DeleteFunc(s.faults, func(a *active) bool { return a.Kind == k })
}

// Faults lists the faults that are not over.
func (s *Set) Faults() []Fault {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var fs []Fault
	for _, a := range s.faults {
		fs = append(fs, a.Fault)
	}
	slices.SortFunc(fs, func(a, b Fault) int { return cmp.Compare(a.Kind, b.Kind) })
	return fs
}

// Find returns the fault of a kind, without counting an event.
func (s *Set) Find(k Kind) (Fault, bool) {
	if s == nil {
		return Fault{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.active(k); a != nil {
		return a.Fault, true
	}
	return Fault{}, false
}

func (s *Set) active(k Kind) *active {
	for _, a := range s.faults {
		if a.Kind == k {
			return a
		}
	}
	return nil
}

// Hit counts an event of a kind, and says whether the fault hits it.
func (s *Set) Hit(k Kind) (Fault, bool) {
	if s == nil {
		return Fault{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.active(k)
	if a == nil {
		return Fault{}, false
	}
	a.events++
	if a.events <= a.After || a.Rate > 0 && s.throw(k) >= a.Rate {
		return Fault{}, false
	}
	a.hits++
	s.hits[k]++
	if a.hits == a.Count {
		s.remove(k)
	}
	return a.Fault, true
}

// throw returns a number from 0 to below 1. The caller holds the lock.
func (s *Set) throw(k Kind) float64 {
	if s.dice[k] == nil {
		h := fnv.New64a()
		_, _ = h.Write([]byte(k)) // a hash takes all
		s.dice[k] = rand.New(rand.NewPCG(s.seed, h.Sum64()))
	}
	return s.dice[k].Float64()
}

// Hits is how often faults of a kind have hit so far, healed ones too.
func (s *Set) Hits(k Kind) int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[k]
}
