package prove

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"bessemer/server/auth"
	"bessemer/store"
)

// TestClockJumps sets the time of day, as far as the appliance can see it,
// while a deploy waits for its machine: all that is stored becomes a day older,
// or lies a day ahead. The deploy must go on, the machine keep its address,
// and a token be worth what its expiry says. That the waits of a process which
// runs do not heed the time of day is tested in server/conductor.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	v := prove(t, "clock jumps")
	for name, d := range map[string]time.Duration{"a day forward": 24 * time.Hour, "a day back": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, v, 1, "tiny", 0.01, order{}, "BESSEMER_CONDUCTOR_AUTOMATED_CLEAN=false")
			defer s.over()
			m := s.rack.Machines()[0]
			uuid := s.begin(m)
			s.live(m, uuid, life[0], false)
			s.live(m, uuid, life[1], false)
			s.setInstance(uuid, s.sum)
			s.ask(uuid, life[2])
			s.until("GET", "/v1/nodes/"+uuid, nil, func(r answer) bool {
				var n node
				return r.into(&n) == nil && n.State != "available" && n.State != "deploying"
			})
			s.stop()
			known := s.setClock(d)
			if expired := d > 0; known == expired {
				v.violated("%s: a token of 12 hours is accepted: %v", name, known)
			}
			s.again(order{Points: s.points})
			if n := s.settle(uuid); n.State != "active" {
				v.violated("%s: the deploy ended %q (%s)\n%s", name, n.State, n.Error, describe(m))
			}
			s.live(m, uuid, life[5], false)
			s.stop()
			if leases := s.leases(); len(leases) != 1 {
				v.violated("%s: one machine has the addresses %v", name, leases)
			}
			v.count(4, 1, 1)
		})
	}
}

// withStore opens the store that an appliance which has ended has left.
func (s *site) withStore(do func(*store.DB) error) {
	s.t.Helper()
	db, err := store.Open(s.dir, store.Options{NoSync: true})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := errors.Join(do(db), db.Close()); err != nil {
		s.t.Fatal(err)
	}
}

// leases are the addresses that the DHCP server has given.
func (s *site) leases() (ips []string) {
	s.t.Helper()
	s.withStore(func(db *store.DB) error {
		return db.View(func(tx *store.Tx) error {
			for l, err := range store.Leases.All(tx) {
				if err != nil {
					return err
				}
				ips = append(ips, l.IP)
			}
			return nil
		})
	})
	return ips
}

// setClock does to what is stored what setting the time of day forward by d
// does: all of it is that much older than it was. It says whether a token that
// was given just before is accepted then.
func (s *site) setClock(d time.Duration) (known bool) {
	s.t.Helper()
	s.withStore(func(db *store.DB) error {
		a, err := auth.New(auth.Config{DB: db, Mode: auth.Basic, Cost: bcrypt.MinCost})
		if err != nil {
			return err
		}
		if err := a.AddUser("reader", "a long password", auth.Reader); err != nil {
			return err
		}
		token, _, err := a.Login("test", "reader", "a long password")
		if err != nil {
			return err
		}
		err = db.Update(func(tx *store.Tx) error {
			return errors.Join(
				age(tx, store.Nodes, func(n *store.Node) []*time.Time {
					at := []*time.Time{&n.Agent.Since, &n.Agent.LastHeartbeat, &n.ProvisionUpdatedAt, &n.CreatedAt, &n.UpdatedAt}
					if n.Reservation != nil {
						at = append(at, &n.Reservation.Since, &n.Reservation.Expires)
					}
					return at
				}, d),
				age(tx, store.Runs, func(r *store.Run) []*time.Time {
					at := []*time.Time{&r.Started, &r.Ended, &r.Deadline, &r.WakeAt}
					for i := range r.Steps {
						at = append(at, &r.Steps[i].Started, &r.Steps[i].Ended)
					}
					if r.Ramdisk != nil {
						at = append(at, &r.Ramdisk.BootedAt)
					}
					return at
				}, d),
				age(tx, store.Leases, func(l *store.Lease) []*time.Time { return []*time.Time{&l.Since, &l.Expires} }, d),
				age(tx, store.Tokens, func(t *store.Token) []*time.Time { return []*time.Time{&t.Expires} }, d),
				age(tx, store.Sessions, func(s *store.Session) []*time.Time { return []*time.Time{&s.Opened} }, d),
			)
		})
		_, refused := a.Token(token)
		known = refused == nil
		return err
	})
	return known
}

// age makes the times of all records of a table older.
func age[T any](tx *store.Tx, table *store.Table[T], times func(*T) []*time.Time, d time.Duration) error {
	var all []*T
	for v, err := range table.All(tx) {
		if err != nil {
			return err
		}
		all = append(all, v)
	}
	for _, v := range all {
		for _, at := range times(v) {
			if !at.IsZero() {
				*at = at.Add(-d)
			}
		}
		if err := table.Put(tx, v); err != nil {
			return err
		}
	}
	return nil
}
