package conductor

import (
	"context"
	"errors"
	"sync"
	"time"

	"bessemer/pxe"
	"bessemer/store"
)

// Machines that ask to boot and belong to no node are written to the store at
// most so often, and at most so many are kept: the network they are on is
// anybody's.
const (
	discoveryInterval = 5 * time.Second
	maxDiscovered     = 4096
)

// A discovery collects machines between two writes.
type discovery struct {
	mu    sync.Mutex
	fresh map[string]*store.Discovered
}

func newDiscovery() *discovery { return &discovery{fresh: map[string]*store.Discovered{}} }

func (d *discovery) add(m pxe.Machine) {
	if len(m.MAC) != 6 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now, mac := time.Now(), m.MAC.String()
	r := d.fresh[mac]
	if r == nil {
		if len(d.fresh) >= maxDiscovered {
			return
		}
		r = &store.Discovered{MAC: mac, FirstSeen: now}
		d.fresh[mac] = r
	}
	r.LastSeen, r.LastWhat = now, clip(m.What, 100)
	r.Count++
	tellOf(r, m)
}

// tellOf takes over what a machine tells; what it leaves out stays.
func tellOf(r *store.Discovered, m pxe.Machine) {
	for field, v := range map[*string]string{
		&r.UUID: m.UUID, &r.Arch: m.Arch.String(), &r.VendorClass: m.VendorClass, &r.UserClass: m.UserClass,
	} {
		if v = clip(v, 200); v != "" {
			*field = v
		}
	}
	if m.IP != nil && !m.IP.IsUnspecified() {
		r.IP = m.IP.String()
	}
}

func (d *discovery) take() map[string]*store.Discovered {
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := d.fresh
	d.fresh = map[string]*store.Discovered{}
	return fresh
}

func (d *discovery) drop(macs []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, mac := range macs {
		delete(d.fresh, mac)
	}
}

// saveDiscovered writes the machines that were seen, now and then.
func (c *Conductor) saveDiscovered(ctx context.Context) {
	tick := time.NewTicker(discoveryInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		fresh := c.found.take()
		if len(fresh) == 0 {
			continue
		}
		if err := c.db.Batch(func(tx *store.Tx) error { return mergeDiscovered(tx, fresh) }); err != nil {
			c.log.Error().Err(err).Msg("save discovered machines")
		}
	}
}

// forgetDiscovered removes machines that belong to a node now.
func (c *Conductor) forgetDiscovered(macs []string) {
	c.found.drop(macs)
	known := false
	err := c.db.View(func(tx *store.Tx) error {
		for _, mac := range macs {
			known = known || store.DiscoveredMachines.Has(tx, mac)
		}
		return nil
	})
	if err == nil && !known {
		return // which is what most changes of a node find, and a commit costs
	}
	err = c.db.Batch(func(tx *store.Tx) error {
		for _, mac := range macs {
			if err := store.DiscoveredMachines.Delete(tx, mac); err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.log.Error().Err(err).Msg("forget discovered machines")
	}
}

func mergeDiscovered(tx *store.Tx, fresh map[string]*store.Discovered) error {
	count := 0
	for _, err := range store.DiscoveredMachines.All(tx) {
		if err != nil {
			return err
		}
		count++
	}
	for mac, r := range fresh {
		old, err := store.DiscoveredMachines.Get(tx, mac)
		merged := *r
		switch {
		case err == nil:
			merged.FirstSeen, merged.Count = old.FirstSeen, old.Count+r.Count
			fillFrom(&merged, old)
		case !errors.Is(err, store.ErrNotFound):
			return err
		case count >= maxDiscovered:
			continue
		default:
			count++
		}
		if err := store.DiscoveredMachines.Put(tx, &merged); err != nil {
			return err
		}
	}
	return nil
}

// fillFrom takes from an earlier record what the newer one does not say.
func fillFrom(r, old *store.Discovered) {
	for field, v := range map[*string]string{
		&r.UUID: old.UUID, &r.Arch: old.Arch, &r.VendorClass: old.VendorClass, &r.UserClass: old.UserClass, &r.IP: old.IP,
	} {
		if *field == "" {
			*field = v
		}
	}
}
