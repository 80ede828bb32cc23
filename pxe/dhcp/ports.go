package dhcp

import (
	"errors"
	"fmt"
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

	mu    sync.RWMutex
	byMAC map[string]port
}

func (p *ports) refresh() error {
	m := map[string]port{}
	err := p.db.View(func(tx *store.Tx) error {
		for q, err := range store.Ports.All(tx) {
			if err != nil {
				return err
			}
			m[q.Address] = port{q.NodeUUID, q.PXEEnabled}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read ports: %w", err)
	}
	p.mu.Lock()
	p.byMAC = m
	p.mu.Unlock()
	return nil
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
	p.byMAC[mac] = q
	p.mu.Unlock()
	return q, true, nil
}
