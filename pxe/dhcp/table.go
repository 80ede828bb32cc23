package dhcp

import (
	"errors"
	"net/netip"
	"sync"
	"time"
)

// States of a lease, as stored.
const (
	offered  = "offered"
	bound    = "bound"
	declined = "declined"
)

var (
	errNoAddress = errors.New("no free address")
	errWrong     = errors.New("address is not this client's")
)

// A lease is an address and the client that has it, or had it last. The zero
// key is no client: the address is in quarantine.
type lease struct {
	ip       netip.Addr
	key      string // see client.key
	enrolled bool   // the client has a port: the address stays its own
	node     string
	hostname string
	state    string
	since    time.Time
	expires  time.Time
}

// A table holds the leases of one range. Its decisions depend on nothing but
// what it holds and the time.
type table struct {
	known, unknown span
	taken          map[netip.Addr]bool // never given: ours, the gateway's, DNS servers'
	leaseTime      time.Duration
	unknownTime    time.Duration

	mu    sync.Mutex
	byIP  map[netip.Addr]*lease
	byKey map[string]*lease
}

func newTable(c *Config) *table {
	t := &table{
		leaseTime: c.LeaseTime, unknownTime: min(c.LeaseTime, c.Limits.UnknownTime),
		taken: map[netip.Addr]bool{c.Address: true, c.Gateway: true},
		byIP:  map[netip.Addr]*lease{}, byKey: map[string]*lease{},
	}
	t.known, t.unknown = c.parts()
	for _, ip := range c.DNS {
		t.taken[ip] = true
	}
	return t
}

// offer finds the address for c: its own, else the one it asks for (want), else
// a free one. It is kept for c for 30 seconds.
func (t *table) offer(c client, want netip.Addr, now time.Time) (netip.Addr, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.byKey[c.key]; l != nil && t.part(c).contains(l.ip) {
		if !l.expires.After(now) || l.state == offered {
			l.state, l.since, l.expires = offered, now, now.Add(offerTime)
		}
		l.enrolled, l.node = c.enrolled, c.node
		return l.ip, nil
	}
	ip, err := t.pick(c, want, now)
	if err != nil {
		return ip, err
	}
	t.give(&lease{ip: ip, key: c.key, enrolled: c.enrolled, node: c.node, state: offered, since: now, expires: now.Add(offerTime)})
	return ip, nil
}

// bind gives ip to c, or renews it. It refuses an address that is not c's to
// have.
func (t *table) bind(c client, ip netip.Addr, hostname string, now time.Time) (lease, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byKey[c.key]
	switch {
	case l != nil && l.ip == ip: // its own
	case l != nil && l.expires.After(now): // it has another
		return lease{}, errWrong
	case !t.part(c).contains(ip) || t.taken[ip] || !t.free(ip, now):
		return lease{}, errWrong
	default:
		l = &lease{ip: ip, key: c.key, since: now}
		t.give(l)
	}
	if l.state != bound || !l.expires.After(now) {
		l.since = now
	}
	l.state, l.enrolled, l.node, l.hostname = bound, c.enrolled, c.node, hostname
	l.expires = now.Add(t.time(c))
	return *l, nil
}

// withdraw takes back an offer that c did not take.
func (t *table) withdraw(c client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.byKey[c.key]; l != nil && l.state == offered {
		t.drop(l)
	}
}

// release ends c's lease of ip. The record stays, so that c gets the same
// address again while nobody else needs it.
func (t *table) release(c client, ip netip.Addr, now time.Time) (lease, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byKey[c.key]
	if l == nil || l.ip != ip || l.state != bound {
		return lease{}, errWrong
	}
	l.expires = now
	return *l, nil
}

// decline puts ip into quarantine because c found somebody else using it. No
// more than half of a part is ever in quarantine.
func (t *table) decline(c client, ip netip.Addr, now time.Time) (lease, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byKey[c.key]
	if l == nil || l.ip != ip || !l.expires.After(now) {
		return lease{}, errWrong
	}
	t.drop(l)
	part := t.known
	if t.unknown.contains(ip) {
		part = t.unknown
	}
	if 2*t.quarantined(part, now) >= part.size() {
		return lease{ip: ip, key: c.key, state: bound, since: now, expires: now}, nil
	}
	q := &lease{ip: ip, state: declined, since: now, expires: now.Add(quarantine)}
	t.byIP[ip] = q
	return *q, nil
}

// find returns the client that has ip now.
func (t *table) find(ip netip.Addr, now time.Time) (lease, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byIP[ip]
	if l == nil || l.key == "" || !l.expires.After(now) {
		return lease{}, false
	}
	return *l, true
}

// of returns the lease that the client with the given key has now.
func (t *table) of(key string, now time.Time) (lease, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byKey[key]
	if l == nil || !l.expires.After(now) {
		return lease{}, false
	}
	return *l, true
}
