package conductor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"bessemer/agent/wire"
	"bessemer/store"
)

// maskedToken is what later lookups of a boot get instead of the token.
const maskedToken = "******"

// maxLookupMACs bounds what one lookup may ask for.
const maxLookupMACs = 64

// Lookup implements [API]. It answers only for a node whose run has started it
// for the ramdisk, so that a machine cannot take a token between two boots;
// and the first that asks gets the token of the boot, nobody else.
func (c *Conductor) Lookup(ctx context.Context, macs []string, uuid, peer string, wantToken bool) (wire.LookupResponse, error) {
	var r wire.LookupResponse
	var node *store.Node
	token := ""
	err := c.db.Batch(func(tx *store.Tx) error {
		n, err := lookupNode(tx, macs, uuid)
		if err != nil {
			return err
		}
		if err := awaitsAgent(tx, n); err != nil {
			return err
		}
		node, token = n, maskedToken
		if n.Agent.Token != "" || !wantToken {
			return nil
		}
		token = newToken()
		n.Agent = store.Agent{Token: token, Address: hostOf(peer), Since: time.Now()}
		return store.Nodes.Put(tx, n)
	})
	if err != nil {
		return r, err
	}
	c.index.note(node.UUID, "lookup", func(s *sighting) {
		switch {
		case token != maskedToken:
			s.claimed = s.At
		case wantToken && node.Agent.Address == hostOf(peer):
			s.repeated = node.Agent.Token
		}
	})
	if token == maskedToken && wantToken {
		c.log.Warn().Str("node", node.UUID).Str("peer", peer).Str("first", node.Agent.Address).
			Msg("second lookup in one boot: the agent was started twice, or another machine pretends to be this node")
		c.suspect(node.UUID, "a second lookup")
	}
	c.queue.add(node.UUID)
	r.Node = lookupView(node)
	r.Config = c.lookupConfig(token)
	return r, nil
}

// lookupNode finds the one node that MACs or a UUID name. Nothing in the
// error tells an asker what exists.
func lookupNode(tx *store.Tx, macs []string, uuid string) (*store.Node, error) {
	unknown := fmt.Errorf("%w: no node awaits this machine", ErrNotFound)
	if uuid != "" {
		n, err := store.Nodes.Get(tx, strings.ToLower(uuid))
		if errors.Is(err, store.ErrNotFound) {
			return nil, unknown
		}
		return n, err
	}
	found := ""
	for _, mac := range macs[:min(len(macs), maxLookupMACs)] {
		hw, err := net.ParseMAC(strings.TrimSpace(mac))
		if err != nil {
			continue // an InfiniBand or virtual interface
		}
		p, err := store.Ports.By(tx, "address", hw.String())
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case err != nil:
			return nil, err
		case found != "" && found != p.NodeUUID:
			return nil, unknown // cards of two nodes in one machine
		}
		found = p.NodeUUID
	}
	if found == "" {
		return nil, unknown
	}
	return store.Nodes.Get(tx, found)
}

// awaitsAgent checks that a node's run has started it for the ramdisk.
func awaitsAgent(tx *store.Tx, n *store.Node) error {
	unknown := fmt.Errorf("%w: no node awaits this machine", ErrNotFound)
	if n.Run == 0 || !LookupAllowed(n.ProvisionState) {
		return unknown
	}
	r, err := store.Runs.Get(tx, store.RunKey(n.Run))
	if err != nil {
		return err
	}
	if r.Ramdisk == nil || r.Ramdisk.BootedAt.IsZero() || r.Ending != "" {
		return unknown
	}
	return nil
}

// lookupView is what of a node an agent may see: no driver_info, no secrets.
func lookupView(n *store.Node) wire.LookupNode {
	return wire.LookupNode{
		UUID: n.UUID, Properties: orEmpty(n.Properties), InstanceInfo: publicInstanceInfo(n),
		DriverInternalInfo: agentInternalInfo(), Links: []wire.Link{},
	}
}

func (c *Conductor) lookupConfig(token string) wire.LookupConfig {
	return wire.LookupConfig{
		Metrics:               map[string]any{"backend": "noop", "prepend_host": false, "prepend_uuid": false, "prepend_host_reverse": true, "global_prefix": nil},
		MetricsStatsd:         map[string]any{"statsd_host": "localhost", "statsd_port": 8125},
		HeartbeatTimeout:      int(c.config.Timeouts.Heartbeat.Seconds()),
		AgentToken:            token,
		AgentTokenRequired:    true,
		PermittedImageFormats: []string{"raw", "gpt", "qcow2"},
	}
}

// hostOf returns the host of "host:port", or of an address without a port.
func hostOf(peer string) string {
	if h, _, err := net.SplitHostPort(peer); err == nil {
		return h
	}
	return strings.Trim(peer, "[]")
}
