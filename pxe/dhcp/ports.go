package dhcp

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"bessemer/store"
)

// A port is what DHCP needs to know of an enrolled port.
type port struct {
	node string
	pxe  bool
}

// ports caches the store's ports by MAC, so that a packet costs no
// transaction.
type ports struct {
	db *store.DB

	reading sync.Mutex // over read and change, so that the newest read is what stays

	mu     sync.RWMutex
	byMAC  map[string]port
	byNode map[string][]string // MACs
}

// refresh reads all ports.
func (p *ports) refresh() error {
	p.reading.Lock()
	defer p.reading.Unlock()
	m, nodes := map[string]port{}, map[string][]string{}
	err := p.db.View(func(tx *store.Tx) error {
		for q, err := range store.Ports.All(tx) {
			if err != nil {
				return err
			}
			m[q.Address] = port{q.NodeUUID, q.PXEEnabled}
			nodes[q.NodeUUID] = append(nodes[q.NodeUUID], q.Address)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read ports: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byMAC, p.byNode = m, nodes
	return nil
}

// refreshNode reads the ports of one node, so that a change costs the same
// however many nodes there are.
func (p *ports) refreshNode(node string) error {
	p.reading.Lock()
	defer p.reading.Unlock()
	var now []*store.Port
	err := p.db.View(func(tx *store.Tx) error {
		for q, err := range store.Ports.Where(tx, "node_uuid", node) {
			if err != nil {
				return err
			}
			now = append(now, q)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read ports of node %s: %w", node, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, mac := range p.byNode[node] {
		if p.byMAC[mac].node == node {
			delete(p.byMAC, mac)
		}
	}
	delete(p.byNode, node)
	for _, q := range now {
		p.add(q.Address, port{node, q.PXEEnabled})
	}
	return nil
}

// add takes up a port. The caller holds mu.
func (p *ports) add(mac string, q port) {
	p.byMAC[mac] = q
	if !slices.Contains(p.byNode[q.node], mac) {
		p.byNode[q.node] = append(p.byNode[q.node], mac)
	}
}

func (p *ports) get(mac string) (port, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	q, ok := p.byMAC[mac]
	return q, ok
}

// find is get, and asks the store for a port too new for the cache.
func (p *ports) find(mac string) (port, bool, error) {
	if q, ok := p.get(mac); ok {
		return q, true, nil
	}
	var q port
	err := p.db.View(func(tx *store.Tx) error {
		s, err := store.Ports.By(tx, "address", mac)
		if err != nil {
			return err
		}
		q = port{s.NodeUUID, s.PXEEnabled}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return port{}, false, nil
	}
	if err != nil {
		return port{}, false, fmt.Errorf("look up port %s: %w", mac, err)
	}
	p.mu.Lock()
	p.add(mac, q)
	p.mu.Unlock()
	return q, true, nil
}
