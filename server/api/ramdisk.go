package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"bessemer/agent/wire"
	"bessemer/server/auth"
	"bessemer/server/conductor"
	"bessemer/store"
)

// maxMACs is how many addresses a lookup may name.
const maxMACs = 256

// lookup tells a ramdisk which node it runs on. It is unauthenticated, so an
// unknown machine and a node that expects no ramdisk get the same answer.
func lookup(c *call) error {
	if err := c.only("addresses", "node_uuid"); err != nil {
		return err
	}
	s, _ := c.param("addresses")
	macs := validMACs(splitList(s))
	id, _ := c.param("node_uuid")
	if id != "" && !isUUID(id) {
		return invalid("Expected UUID for node_uuid: %s", shown(id))
	}
	if len(macs) == 0 && id == "" {
		return invalid("Lookup needs the addresses of the machine's network cards or its node_uuid")
	}
	passed := c.lookupArrow(macs, id)
	r, err := c.api.conductor.Lookup(c.ctx, macs, strings.ToLower(id), auth.Source(c.r), c.v >= 62)
	passed(err)
	if errors.Is(err, conductor.ErrNotFound) || errors.Is(err, store.ErrNotFound) {
		return refuse(http.StatusNotFound, "Resource could not be found.")
	}
	if err != nil {
		return err
	}
	n := &r.Node
	n.Links = c.links("/nodes/" + n.UUID)
	n.Properties = notNil(n.Properties)
	n.InstanceInfo = notNil(maskBag(n.InstanceInfo, nil))
	n.DriverInternalInfo = notNil(maskBag(n.DriverInternalInfo, nil))
	c.json(http.StatusOK, r)
	return nil
}

func notNil(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

func validMACs(sent []string) []string {
	var macs []string
	for _, s := range sent[:min(len(sent), maxMACs)] {
		if mac, err := parseMAC("addresses", strings.ReplaceAll(strings.TrimSpace(s), "-", ":")); err == nil {
			macs = append(macs, mac)
		}
	}
	return macs
}

// lookupArrow records the lookup of a machine that is a node's, and returns
// the function that records its answer, in seed 000's words.
func (c *call) lookupArrow(macs []string, id string) func(error) {
	n := c.nodeOf(macs, id)
	if n == nil {
		return func(error) {}
	}
	c.ctx = store.WithScope(c.ctx, c.runScope(n))
	if n.Run != 0 && n.Agent.Token == "" { // the first of a boot shows that the agent runs
		c.api.rec.Record(c.ctx, store.Message{From: store.NodeP, To: store.NodeP, Kind: store.Self, Label: store.LabelRunsAgent})
	}
	seq := c.api.rec.Record(c.ctx, store.Message{From: store.NodeP, To: store.API, Kind: store.Request, Label: store.LabelLookup, Wire: c.wire(0)})
	return func(err error) {
		m := store.Message{From: store.API, To: store.NodeP, Kind: store.Reply, Label: store.LabelPassUUID, ReplyTo: seq, Outcome: store.OK}
		if err != nil {
			m.Outcome, m.Error = store.Failed, asFault(err, c.requestID()).text
		}
		c.api.rec.Record(c.ctx, m)
	}
}

// nodeOf finds the node of a machine, nil when it has none.
func (c *call) nodeOf(macs []string, id string) *store.Node {
	var n *store.Node
	_ = c.api.db.View(func(tx *store.Tx) (err error) {
		if id != "" {
			if n, err = store.Nodes.Get(tx, strings.ToLower(id)); err == nil {
				return nil
			}
		}
		for _, mac := range macs {
			if p, err := store.Ports.By(tx, "address", mac); err == nil {
				n, _ = store.Nodes.Get(tx, p.NodeUUID)
				return nil
			}
		}
		return nil
	})
	return n
}

// runScope is on whose behalf a node's own requests are: its run's.
func (c *call) runScope(n *store.Node) store.Scope {
	s := store.Scope{Node: n.UUID, Run: n.Run}
	if n.Run != 0 {
		_ = c.api.db.View(func(tx *store.Tx) error {
			if r, err := store.Runs.Get(tx, store.RunKey(n.Run)); err == nil {
				s.Trace, s.Step = r.Trace, r.Step
			}
			return nil
		})
	}
	return s
}

// heartbeat takes the sign of life of a node's agent. Agents want exactly 202.
func heartbeat(c *call) error {
	var h wire.Heartbeat
	if err := c.lenient(&h); err != nil {
		return err
	}
	if h.CallbackURL == "" || len(h.CallbackURL) > 512 || len(h.AgentVerifyCA) > 64<<10 || len(h.AgentToken) > 256 || len(h.AgentVersion) > 64 {
		return invalid("A heartbeat needs a callback_url, and values of sensible length")
	}
	id := strings.ToLower(c.path("node"))
	n := c.nodeOf(nil, id)
	if n == nil {
		return noNode(c.path("node"))
	}
	c.ctx = store.WithScope(c.ctx, c.runScope(n))
	reply := store.Send(c.ctx, c.api.rec, store.Message{From: store.NodeP, To: store.API, Label: store.LabelHeartbeat, Wire: c.wire(0)})
	err := c.api.conductor.Heartbeat(c.ctx, n.UUID, auth.Source(c.r), h)
	if err != nil {
		f := asFault(err, c.requestID())
		reply(errors.New(f.text), c.wire(f.status))
		return err
	}
	reply(nil, c.wire(http.StatusAccepted))
	return c.empty(http.StatusAccepted)
}

// expectsRamdisk says whether a node's ramdisk may call now, from peer: none
// but the machine that looked itself up first.
func expectsRamdisk(n *store.Node, peer string) bool {
	return slices.Contains(ramdiskStates, n.ProvisionState) && (n.Agent.Address == "" || n.Agent.Address == peer)
}
