package conductor

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"bessemer/agent/wire"
	"bessemer/store"
)

// maxCA bounds the certificate that an agent may send.
const maxCA = 16 << 10

// Heartbeat implements [API]. The token says that it is the agent which
// looked itself up in this boot; the address that it may be called at is the
// one it speaks from, and does not change within a boot.
func (c *Conductor) Heartbeat(ctx context.Context, node, peer string, h wire.Heartbeat) error {
	claim, err := c.checkCallback(peer, h)
	if err != nil {
		return err
	}
	var uuid string
	err = c.db.Batch(func(tx *store.Tx) error {
		n, err := findNode(tx, node)
		if err != nil {
			return err
		}
		uuid = n.UUID
		if err := admit(n, h.AgentToken); err != nil {
			return err
		}
		if err := sameAgent(n.Agent, claim); err != nil {
			return err
		}
		n.Agent.URL, n.Agent.CA, n.Agent.Version = claim.URL, claim.CA, clip(h.AgentVersion, 100)
		n.Agent.LastHeartbeat = time.Now()
		return store.Nodes.Put(tx, n)
	})
	if err != nil {
		return err
	}
	c.index.note(uuid, "heartbeat", func(s *sighting) { s.beat = s.At })
	ctx = store.WithScope(ctx, c.Scope(uuid))
	c.db.Record(ctx, store.Message{From: store.API, To: store.Conductor, Kind: store.Cast, Label: store.LabelHeartbeat})
	c.queue.add(uuid)
	return nil
}

// admit checks that an agent is expected on a node, and that it is this one.
// The token is cleared with the power, so it is of the boot that goes on.
func admit(n *store.Node, token string) error {
	if token == "" {
		return fmt.Errorf("%w: agent token is required", ErrBadAgent)
	}
	if n.Agent.Token == "" || subtle.ConstantTimeCompare([]byte(n.Agent.Token), []byte(token)) != 1 {
		return fmt.Errorf("%w: agent token is not that of this boot", ErrBadAgent)
	}
	if n.Run == 0 || !LookupAllowed(n.ProvisionState) {
		return fmt.Errorf("%w: node %s awaits no agent", ErrBadAgent, n.UUID)
	}
	return nil
}

// sameAgent refuses another address or certificate within one boot.
func sameAgent(known, claim store.Agent) error {
	if known.URL != "" && known.URL != claim.URL {
		return fmt.Errorf("%w: detected change in ramdisk provided callback_url", ErrInvalid)
	}
	if known.URL != "" && known.CA != claim.CA {
		return fmt.Errorf("%w: detected change in ramdisk provided agent_verify_ca", ErrInvalid)
	}
	return nil
}

// checkCallback checks where an agent wants to be called: by HTTPS, at the
// very address that it speaks from.
func (c *Conductor) checkCallback(peer string, h wire.Heartbeat) (claim store.Agent, err error) {
	bad := func(format string, args ...any) (store.Agent, error) {
		return store.Agent{}, fmt.Errorf("%w: callback_url: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(h.CallbackURL)
	if err != nil || len(h.CallbackURL) > 300 {
		return bad("is not a URL")
	}
	port, _ := strconv.Atoi(u.Port())
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return bad("scheme %q is not https", clip(u.Scheme, 20))
	case u.Scheme == "http" && !c.config.PlainAgents:
		return bad("must be https; agents without TLS are not accepted")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" || u.Opaque != "":
		return bad("must be scheme, address and port alone")
	case !sameHost(u.Hostname(), hostOf(peer)):
		return bad("its host is not the address that the heartbeat came from")
	case port < 1024 || port > 65535:
		return bad("its port must be 1024 or above")
	}
	if len(h.AgentVerifyCA) > maxCA {
		return store.Agent{}, fmt.Errorf("%w: agent_verify_ca is longer than %d bytes", ErrInvalid, maxCA)
	}
	if h.AgentVerifyCA != "" {
		if _, err := parseCA(h.AgentVerifyCA); err != nil {
			return store.Agent{}, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return store.Agent{URL: u.Scheme + "://" + u.Host, CA: h.AgentVerifyCA}, nil
}

// sameHost compares two addresses; names are not addresses.
func sameHost(a, b string) bool {
	x, errx := netip.ParseAddr(a)
	y, erry := netip.ParseAddr(b)
	return errx == nil && erry == nil && x.Unmap().WithZone("") == y.Unmap().WithZone("")
}
