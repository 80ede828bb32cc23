package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"bessemer/agent/hw"
	"bessemer/agent/wire"
)

// masked is what a server answers in a token's place after it has given it out.
const masked = "******"

// minToken is the shortest token that Ironic-Python-Agent takes.
const minToken = 32

// node is what the agent knows about the node that it runs on.
type node struct {
	wire.LookupNode
	token   string
	timeout time.Duration // the server gives us up after this long without a heartbeat
	minor   int           // the server's highest microversion
	local   net.IP        // our address on the way to the server
	date    time.Time     // the server's clock; zero: not told
	formats []string      // of images that the server permits; empty: all
}

// errNoToken: without one nobody could tell the server's commands from anyone
// else's, so the agent does not serve.
var errNoToken = errors.New("the server gives no token: it has given it to an earlier agent of this node, or refuses; " +
	"power the node off and on, the server then makes a new one")

// lookup asks the server which node this is until it tells.
func lookup(ctx context.Context, c Config, a *api, m hw.Machine, con *console) (*node, error) {
	if c.LookupTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.LookupTimeout)
		defer cancel()
	}
	said := ""
	for n := 0; ; n++ {
		node, err := lookupOnce(ctx, c, a, m)
		if err == nil || errors.Is(err, errNoToken) {
			return node, err
		}
		if err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			con.say("look up node at %s: %v; trying again", a.base, err)
			c.Logger.Warn().Err(err).Str("server", a.base).Msg("lookup, trying again")
		}
		if sleep(ctx, lookupPause(n, c.Dice())) != nil {
			return nil, fmt.Errorf("look up node at %s: gave up after %s; last: %w", a.base, c.LookupTimeout, err)
		}
	}
}

// lookupPause grows from half a second to five, spread by a die from 0 to 1 so
// that a rack that powers up together does not ask in step.
func lookupPause(n int, die float64) time.Duration {
	d := min(500*time.Millisecond<<min(n, 4), 5*time.Second)
	return time.Duration(float64(d) * (0.7 + 0.5*die))
}

func lookupOnce(ctx context.Context, c Config, a *api, m hw.Machine) (*node, error) {
	inv, err := m.Inventory(ctx)
	if err != nil {
		return nil, fmt.Errorf("read inventory: %w", err)
	}
	q := url.Values{"addresses": {strings.Join(macs(inv), ",")}}
	if c.NodeUUID != "" {
		q.Set("node_uuid", c.NodeUUID)
	}
	ans, err := a.call(ctx, http.MethodGet, wire.LookupPath+"?"+q.Encode(), lookupVersion, nil)
	if err != nil {
		return nil, err
	}
	switch ans.code {
	case http.StatusOK:
		return newNode(c, ans)
	case http.StatusNotFound:
		return nil, errors.New("the server does not know this machine, or does not expect it now")
	default:
		return nil, fmt.Errorf("the server answered %d: %s", ans.code, explain(ans.body))
	}
}

// macs are the addresses of the machine's cards, each once, in lower case with
// colons, however the card spells it (N-02); what is no address of a card is
// left out (N-01). A bond repeats the address of its first card (N-03).
func macs(inv wire.Inventory) []string {
	var out []string
	for _, i := range inv.Interfaces {
		a, err := net.ParseMAC(strings.TrimSpace(i.MACAddress))
		if err != nil || len(a) == 6 && (a.String() == "00:00:00:00:00:00" || a[0]&1 != 0) {
			continue
		}
		if mac := a.String(); !slices.Contains(out, mac) {
			out = append(out, mac)
		}
	}
	return out
}

func newNode(c Config, ans answer) (*node, error) {
	var l wire.LookupResponse
	if err := json.Unmarshal(ans.body, &l); err != nil {
		return nil, fmt.Errorf("the server's answer is not what a lookup gives: %w", err)
	}
	if l.Node.UUID == "" {
		return nil, errors.New("the server's answer names no node")
	}
	n := &node{LookupNode: l.Node, token: c.Token, minor: ans.max, local: ans.local, date: ans.date}
	if n.token == "" && l.Config.AgentToken != masked {
		n.token = l.Config.AgentToken
	}
	if len(n.token) < minToken {
		return nil, errNoToken
	}
	if !l.Config.DisableDeepImageInspection {
		n.formats = l.Config.PermittedImageFormats
	}
	if n.minor == 0 {
		n.minor = heartbeatVersion
	}
	n.timeout = time.Duration(l.Config.HeartbeatTimeout) * time.Second
	if n.timeout <= 0 {
		n.timeout = 300 * time.Second
	}
	return n, nil
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
