package prove

import (
	"context"
	"slices"
	"strings"
	"time"

	"bessemer/bmc/sim/rack"
	"bessemer/store"
)

// judge holds the machines' own journals against what the appliance has
// recorded. The appliance must have ended. It is the oracle of all proofs with
// machines:
//
//   - no node had two runs at once, and none is left open;
//   - no power action reached a controller that was not recorded before, and
//     none outside a run;
//   - no disk was written to but by a run that writes, and by a deploy only
//     the disk that was chosen;
//   - no image was written twice in one start of a machine;
//   - no two machines ever had one address.
func (s *site) judge() {
	s.t.Helper()
	db, err := store.Open(s.dir, store.Options{NoSync: true})
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	problems, err := db.Check(context.Background())
	if err != nil || len(problems) > 0 {
		s.v.violated("the store is damaged: %v %v", problems, err)
	}
	messages, err := db.MessagesAfter(0, 0, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	leases := map[string]string{}
	for _, m := range s.rack.Machines() {
		c := s.caseOf(db, m, messages)
		c.checkRuns()
		c.checkPower()
		c.checkDisks()
		c.checkLeases(leases)
	}
	if s.panicked() {
		s.v.violated("the appliance has panicked: see its log")
	}
}

// A dossier is all that is known of one machine, from both sides.
type dossier struct {
	*site
	m        *rack.Machine
	node     *store.Node
	runs     []*store.Run
	messages []store.Message
	events   []rack.Event
}

func (s *site) caseOf(db *store.DB, m *rack.Machine, all []store.Message) *dossier {
	s.t.Helper()
	c := &dossier{site: s, m: m}
	err := db.View(func(tx *store.Tx) (err error) {
		if c.node, err = store.FindNode(tx, m.Name()); err != nil {
			return err
		}
		for r, err := range store.Runs.Where(tx, "node", c.node.UUID) {
			if err != nil {
				return err
			}
			c.runs = append(c.runs, r)
		}
		return nil
	})
	if err != nil {
		s.t.Fatalf("read what is recorded of %s: %v", m.Name(), err)
	}
	slices.SortFunc(c.runs, func(a, b *store.Run) int { return int(a.ID) - int(b.ID) })
	for _, msg := range all {
		if msg.Node == c.node.UUID {
			c.messages = append(c.messages, msg)
		}
	}
	if c.events, err = m.Journal(); err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (c *dossier) checkRuns() {
	c.t.Helper()
	for i, r := range c.runs {
		if r.Outcome == store.Running {
			c.v.violated("%s: run %d (%s) is still open", c.m.Name(), r.ID, r.Workflow)
		}
		if i > 0 && r.Started.Before(c.runs[i-1].Ended) {
			c.v.violated("%s: run %d (%s) began %v before run %d (%s) had ended", c.m.Name(), r.ID, r.Workflow,
				c.runs[i-1].Ended.Sub(r.Started), c.runs[i-1].ID, c.runs[i-1].Workflow)
		}
	}
}

// runAt returns the run that went on at a time.
func (c *dossier) runAt(at time.Time) *store.Run {
	for _, r := range c.runs {
		if !at.Before(r.Started) && !at.After(r.Ended) {
			return r
		}
	}
	return nil
}

// permits are how many power actions of a controller a recorded request may
// make of it.
var permits = map[string]struct{ on, off int }{
	store.LabelPowerOn:      {on: 1},
	store.LabelPowerOff:     {off: 1},
	store.LabelSoftPowerOff: {off: 1},
	store.LabelReboot:       {on: 1, off: 1},
	store.LabelSoftReboot:   {on: 1, off: 1},
}

// checkPower walks through both records in the order of their times.
func (c *dossier) checkPower() {
	c.t.Helper()
	on, off, next := 0, 0, 0
	for _, e := range c.events {
		if e.Kind != rack.Power || e.By != rack.ByBMC {
			continue
		}
		for ; next < len(c.messages) && !c.messages[next].Time.After(e.Time); next++ {
			m := c.messages[next]
			if p, ok := permits[m.Label]; ok && m.Kind == store.Request && m.To == store.BMC {
				on, off = on+p.on, off+p.off
			}
		}
		left := &on
		if strings.Contains(strings.ToLower(e.What), "off") {
			left = &off
		}
		if *left--; *left < 0 {
			c.v.violated("%s: %s at %s reached the controller, and no request for it is recorded", c.m.Name(), e.What, e.Time.Format(time.RFC3339Nano))
			*left = 0
		}
		if c.runAt(e.Time) == nil {
			c.v.violated("%s: %s at %s, when no run was going on", c.m.Name(), e.What, e.Time.Format(time.RFC3339Nano))
		}
	}
}

// writers are the workflows that write to disks; those that are true write to
// the chosen disk only.
var writers = map[string]bool{"deploy": true, "rebuild": true, "clean": false, "manual clean": false, "undeploy": false}

func (c *dossier) checkDisks() {
	c.t.Helper()
	chosen := chosenDisk(c.m)
	written := map[uint64]int64{} // image bytes by start
	for _, e := range c.events {
		if e.Kind != rack.Write {
			continue
		}
		r := c.runAt(e.Time)
		if r == nil {
			c.v.violated("%s: %s was written at %s, when no run was going on", c.m.Name(), e.Disk, e.Time.Format(time.RFC3339Nano))
			continue
		}
		only, writes := writers[r.Workflow]
		switch {
		case !writes:
			c.v.violated("%s: %s was written during %s", c.m.Name(), e.Disk, r.Workflow)
		case only && e.Disk != chosen:
			c.v.violated("%s: %s wrote %d bytes to %s, and %s was chosen", c.m.Name(), r.Workflow, e.Bytes, e.Disk, chosen)
		case only:
			written[e.Start] += e.Bytes
		}
	}
	for start, n := range written {
		if n > 2*imageSize+driveSize {
			c.v.violated("%s: %d bytes were written in start %d, which is more than the image of %d bytes once", c.m.Name(), n, start, imageSize)
		}
	}
}

func (c *dossier) checkLeases(leases map[string]string) {
	c.t.Helper()
	for _, e := range c.events {
		if e.Kind != rack.Boot || e.Lease == "" {
			continue
		}
		if other, taken := leases[e.Lease]; taken && other != c.m.Name() {
			c.v.violated("%s and %s have both had the address %s", c.m.Name(), other, e.Lease)
		}
		leases[e.Lease] = c.m.Name()
	}
}
