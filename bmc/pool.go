package bmc

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"bessemer/store"
)

// A Pool keeps one [Client] per node, so that sessions are reused, and one
// gate per controller. It is safe for concurrent use.
type Pool struct {
	types Types
	rec   store.Recorder
	o     PoolOptions

	mu      sync.Mutex
	clients map[string]*Client
	gates   map[string]*gate
	closing sync.WaitGroup
	closed  bool
}

// NewPool returns a pool for nodes of the given hardware types that records
// its arrows in rec.
func NewPool(types Types, rec store.Recorder, o PoolOptions) *Pool {
	return &Pool{types: types, rec: rec, o: o.withDefaults(), clients: map[string]*Client{}, gates: map[string]*gate{}}
}

// Client returns the client of a node's controller. It is the same one until
// the node's driver or driver_info changes. An unknown driver, or every fault
// of the driver_info, is the error.
func (p *Pool) Client(n *store.Node) (*Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("open controller: the appliance is shutting down")
	}
	if c := p.clients[n.UUID]; c != nil {
		if c.kind == n.Driver && sameInfo(c.info, n.DriverInfo) {
			return c, nil
		}
		p.drop(c)
	}
	c, err := p.open(n)
	if err != nil {
		return nil, err
	}
	p.clients[n.UUID] = c
	return c, nil
}

// Forget closes a node's client, if there is one.
func (p *Pool) Forget(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.clients[node]; c != nil {
		p.drop(c)
	}
}

// Close ends all sessions and waits until that is done. Clients cannot be
// used afterwards.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, c := range p.clients {
		p.drop(c)
	}
	p.mu.Unlock()
	p.closing.Wait()
	return nil
}

func (p *Pool) open(n *store.Node) (*Client, error) {
	t, ok := p.types[n.Driver]
	if !ok {
		return nil, fmt.Errorf("driver %q is unknown; the drivers of this appliance are %s",
			n.Driver, strings.Join(slices.Sorted(maps.Keys(p.types)), ", "))
	}
	info := maps.Clone(n.DriverInfo)
	d, err := t.Open(Target{
		Node: n.UUID, DriverInfo: info, LastPower: n.PowerState, ConnectTimeout: p.o.ConnectTimeout, Sessions: p.noted(n.UUID),
	})
	if err != nil {
		return nil, fmt.Errorf("driver_info of driver %s: %w", n.Driver, Scrub(err, secrets(t, info)...))
	}
	address := n.UUID
	if a, ok := d.(Addressed); ok {
		address = a.Address()
	}
	g := p.gates[address]
	if g == nil {
		g = newGate()
		p.gates[address] = g
	}
	g.refs++
	return &Client{
		node: n.UUID, kind: n.Driver, address: address, info: info, secrets: secrets(t, info),
		driver: d, gate: g, rec: p.rec, o: p.o,
		fuse: &fuse{limit: p.o.Logins, coolDown: p.o.CoolDown},
	}, nil
}

// drop takes a client out and ends its session in the background, after the
// call that it may be in. The caller holds p.mu.
func (p *Pool) drop(c *Client) {
	delete(p.clients, c.node)
	if c.gate.refs--; c.gate.refs == 0 {
		delete(p.gates, c.address)
	}
	p.closing.Go(func() {
		if err := c.close(); err != nil {
			p.o.Log.Debug().Err(err).Str("node", c.node).Msg("end session with the controller")
		}
	})
}

// secrets returns the values of the keys of a driver_info that are secret.
func secrets(t Type, info map[string]any) []string {
	var s []string
	f := Target{DriverInfo: info}.Fields()
	for _, p := range t.Properties {
		if v := f.String(p.Name, ""); p.Secret && v != "" {
			s = append(s, v)
		}
	}
	return s
}
