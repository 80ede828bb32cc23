package auth

import (
	"net/netip"
	"sync"
	"time"
)

// A limiter slows down those who guess passwords: each source may fail burst
// times, and once more every refill.
type limiter struct {
	mu      sync.Mutex
	sources map[string]bucket
}

type bucket struct {
	failures float64 // forgotten at one per refill
	at       time.Time
}

const (
	burst      = 20
	refill     = 3 * time.Second
	maxSources = 10_000
)

func (b bucket) now(t time.Time) float64 {
	return max(0, b.failures-float64(t.Sub(b.at))/float64(refill))
}

// allow says whether source may try.
func (l *limiter) allow(source string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sources[group(source)].now(time.Now()) < burst
}

// failed counts a wrong guess of source.
func (l *limiter) failed(source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sources == nil {
		l.sources = map[string]bucket{}
	}
	now, g := time.Now(), group(source)
	if _, known := l.sources[g]; !known && len(l.sources) >= maxSources {
		l.forget(now)
	}
	l.sources[g] = bucket{l.sources[g].now(now) + 1, now}
}

// forget drops the sources that have nothing against them any more, or all
// when there are too many that have: memory stays bounded.
func (l *limiter) forget(now time.Time) {
	for g, b := range l.sources {
		if b.now(now) == 0 {
			delete(l.sources, g)
		}
	}
	if len(l.sources) >= maxSources {
		clear(l.sources)
	}
}

// group is the unit that the limit is on: an IPv4 address, or an IPv6 /64,
// since a host has as many addresses of one as it likes.
func group(source string) string {
	a, err := netip.ParseAddr(source)
	if err != nil {
		return source
	}
	if a = a.Unmap(); a.Is6() {
		p, _ := a.WithZone("").Prefix(64)
		return p.String()
	}
	return a.String()
}
