package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"bessemer/store"
)

// A save asks for the lease of an address to be written as it is then, and
// for then to be called with the outcome.
type save struct {
	ip   netip.Addr
	then func(error)
}

var errBusy = errors.New("too many leases are waiting to be written")

// save queues a lease for writing.
func (s *Server) save(l lease, then func(error)) { s.saveIP(l.ip, then) }

func (s *Server) saveIP(ip netip.Addr, then func(error)) {
	select {
	case s.saves <- save{ip, then}:
	default:
		if then != nil {
			then(errBusy)
		}
	}
}

// writeBehind writes leases until ctx ends, and then those still queued. While
// one commit waits for the disk the next gathers, so a thousand machines that
// boot at once cost a few commits.
func (s *Server) writeBehind(ctx context.Context) {
	for {
		select {
		case one := <-s.saves:
			s.write(s.gather([]save{one}))
		case <-ctx.Done():
			if rest := s.gather(nil); len(rest) > 0 {
				s.write(rest)
			}
			return
		}
	}
}

func (s *Server) gather(batch []save) []save {
	for len(batch) < 512 {
		select {
		case one := <-s.saves:
			batch = append(batch, one)
		default:
			return batch
		}
	}
	return batch
}

func (s *Server) write(batch []save) {
	err := s.db.Update(func(tx *store.Tx) error {
		for _, b := range batch {
			if err := s.writeOne(tx, b.ip); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("write lease: %w", err)
		s.log.Error().Err(err).Int("leases", len(batch)).Msg("addresses are not acknowledged while leases cannot be written")
	}
	for _, b := range batch {
		if b.then != nil {
			s.guard(func() { b.then(err) })
		}
	}
}

// writeOne writes what the table holds now, not what it held when the save was
// queued: workers queue in any order.
func (s *Server) writeOne(tx *store.Tx, ip netip.Addr) error {
	l, ok := s.table.get(ip)
	if ok {
		return store.Leases.Put(tx, l.record())
	}
	err := store.Leases.Delete(tx, ip.String())
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (l *lease) record() *store.Lease {
	r := &store.Lease{
		IP: l.ip.String(), MAC: l.key, Node: l.node, Hostname: l.hostname,
		State: l.state, Since: l.since, Expires: l.expires,
	}
	if id, ok := strings.CutPrefix(l.key, "id:"); ok {
		r.MAC, r.ClientID = "", id
	}
	return r
}

// load fills the table from the store. Leases outside the range are left: the
// range may come back.
func (s *Server) load() error {
	err := s.db.View(func(tx *store.Tx) error {
		for r, err := range store.Leases.All(tx) {
			if err != nil {
				return err
			}
			s.table.load(r, s.isEnrolled)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load leases: %w", err)
	}
	return nil
}

func (s *Server) isEnrolled(key string) bool {
	_, ok := s.ports.get(key)
	return ok
}

func (t *table) load(r *store.Lease, enrolled func(string) bool) {
	ip, err := netip.ParseAddr(r.IP)
	if err != nil || !t.known.contains(ip) && !t.unknown.contains(ip) || t.taken[ip] {
		return
	}
	l := &lease{ip: ip, key: r.MAC, node: r.Node, hostname: r.Hostname, state: r.State, since: r.Since, expires: r.Expires}
	if r.ClientID != "" {
		l.key = "id:" + r.ClientID
	}
	l.enrolled = enrolled(l.key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.key == "" {
		t.byIP[ip] = l
		return
	}
	// Of two records of one client the one that lasts longer is right.
	if old := t.byKey[l.key]; old != nil && old.expires.After(l.expires) {
		return
	}
	t.give(l)
}

// get returns the record of ip, ended or not.
func (t *table) get(ip netip.Addr) (lease, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byIP[ip]
	if l == nil {
		return lease{}, false
	}
	return *l, true
}

// tidy is done once a minute: what ended long ago is forgotten here and there.
func (s *Server) tidy() {
	if n := s.limit.forget(s.isEnrolled); n > 0 {
		s.log.Warn().Uint64("packets", n).Msg("dropped packets beyond the rate limits; if machines boot slowly, look for the sender")
	}
	if s.table == nil {
		return
	}
	for _, ip := range s.table.sweep(time.Now(), s.isEnrolled) {
		s.saveIP(ip, nil)
	}
}
