package dhcp

import (
	"net/netip"
	"time"
)

// This file is the table's inner half: which address is free for whom. The
// caller holds the table's lock.

func (t *table) part(c client) span {
	if c.enrolled || t.unknown.size() == 0 {
		return t.known
	}
	return t.unknown
}

func (t *table) time(c client) time.Duration {
	if c.enrolled {
		return t.leaseTime
	}
	return t.unknownTime
}

// pick finds an address for a client that has none: one never used, then one
// whose lease has ended, and of the addresses that belong to enrolled ports
// the one unused for longest.
func (t *table) pick(c client, want netip.Addr, now time.Time) (netip.Addr, error) {
	part := t.part(c)
	if want.IsValid() && part.contains(want) && !t.taken[want] && t.free(want, now) {
		return want, nil
	}
	var oldest *lease
	for ip := range part.starting(c.key) {
		l := t.byIP[ip]
		switch {
		case t.taken[ip]:
		case l == nil:
			return ip, nil
		case !l.expires.After(now) && (oldest == nil || better(l, oldest)):
			oldest = l
		}
	}
	if oldest == nil {
		return netip.Addr{}, errNoAddress
	}
	return oldest.ip, nil
}

// better reports whether the ended lease a is to be taken over before b.
func better(a, b *lease) bool {
	if a.enrolled != b.enrolled {
		return !a.enrolled
	}
	return a.expires.Before(b.expires)
}

// free reports whether ip may be given to a client that asks for it by name.
func (t *table) free(ip netip.Addr, now time.Time) bool {
	l := t.byIP[ip]
	return l == nil || !l.enrolled && !l.expires.After(now)
}

// give enters l, which takes over whatever its address and its key were.
func (t *table) give(l *lease) {
	if old := t.byIP[l.ip]; old != nil {
		t.drop(old)
	}
	if old := t.byKey[l.key]; old != nil {
		t.drop(old)
	}
	t.byIP[l.ip] = l
	t.byKey[l.key] = l
}

func (t *table) drop(l *lease) {
	delete(t.byIP, l.ip)
	if t.byKey[l.key] == l {
		delete(t.byKey, l.key)
	}
}

func (t *table) quarantined(part span, now time.Time) int {
	n := 0
	for ip, l := range t.byIP {
		if l.state == declined && l.expires.After(now) && part.contains(ip) {
			n++
		}
	}
	return n
}

// keepEnded is how long the record of an ended lease of an unknown machine is
// kept, for the sake of giving it the same address again.
const keepEnded = 24 * time.Hour

// sweep forgets leases that ended long ago, except those of enrolled ports, and
// returns their addresses. enrolled says whether a key still has a port.
func (t *table) sweep(now time.Time, enrolled func(key string) bool) []netip.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	var gone []netip.Addr
	for ip, l := range t.byIP {
		l.enrolled = l.enrolled && enrolled(l.key)
		keep := keepEnded
		if l.state == offered || l.key == "" {
			keep = 0
		}
		if !l.enrolled && !l.expires.Add(keep).After(now) {
			t.drop(l)
			gone = append(gone, ip)
		}
	}
	return gone
}
