package dhcp

import (
	"sync"

	"golang.org/x/time/rate"
)

const maxLimited = 4096 // MACs of unknown machines that are counted one by one

// A limiter says which packets are worth an answer: so many a second from each
// MAC, and so many from all MACs without a port together, so that a flood of
// forged MACs leaves the workers to enrolled nodes.
type limiter struct {
	perMAC rate.Limit
	all    *rate.Limiter

	mu      sync.Mutex
	known   map[string]*rate.Limiter
	unknown map[string]*rate.Limiter
	dropped uint64
}

func newLimiter(l Limits) *limiter {
	return &limiter{
		perMAC: rate.Limit(l.PerMAC),
		all:    rate.NewLimiter(rate.Limit(l.Unknown), int(4*l.Unknown)+1),
		known:  map[string]*rate.Limiter{}, unknown: map[string]*rate.Limiter{},
	}
}

func (l *limiter) allow(key string, enrolled bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	by := l.known
	if !enrolled {
		by = l.unknown
	}
	one := by[key]
	if one == nil {
		if !enrolled && len(by) >= maxLimited {
			clear(by)
		}
		one = rate.NewLimiter(l.perMAC, int(2*l.perMAC)+1)
		by[key] = one
	}
	if one.Allow() && (enrolled || l.all.Allow()) {
		return true
	}
	l.dropped++
	return false
}

// forget drops the counters of ports that are no more, and returns how many
// packets were dropped since it was last called.
func (l *limiter) forget(enrolled func(key string) bool) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.known {
		if !enrolled(key) {
			delete(l.known, key)
		}
	}
	n := l.dropped
	l.dropped = 0
	return n
}
