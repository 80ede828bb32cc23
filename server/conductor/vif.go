package conductor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bessemer/store"
)

// vifKey is where a port keeps the VIF that is plugged into it, as in Ironic.
const vifKey = "tenant_vif_port_id"

func vifOf(p *store.Port) string {
	s, _ := p.InternalInfo[vifKey].(string)
	return s
}

// vifs returns the VIFs that are plugged into ports.
func vifs(ports []*store.Port) []string {
	ids := []string{}
	for _, p := range ports {
		if id := vifOf(p); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// VIFs implements [API].
func (c *Conductor) VIFs(_ context.Context, node string) ([]string, error) {
	n, err := c.node(node)
	if err != nil {
		return nil, err
	}
	ports, err := c.ports(n.UUID)
	return vifs(ports), err
}

// AttachVIF implements [API]: it plugs a VIF into the port it names, or into
// the first free one, those that boot from the network first.
func (c *Conductor) AttachVIF(_ context.Context, node string, vif map[string]any) error {
	id, _ := vif["id"].(string)
	if id == "" || len(id) > 255 {
		return fmt.Errorf("%w: a VIF needs an id", ErrInvalid)
	}
	want, _ := vif["port_uuid"].(string)
	return c.changeVIFs(node, func(ports []*store.Port) (*store.Port, error) {
		if slices.Contains(vifs(ports), id) {
			return nil, fmt.Errorf("VIF %s is attached to node %s already: %w", id, node, store.ErrConflict)
		}
		p := freePort(ports, want)
		if p == nil {
			return nil, fmt.Errorf("%w: node %s has no free port for VIF %s", ErrInvalid, node, id)
		}
		if p.InternalInfo == nil {
			p.InternalInfo = map[string]any{}
		}
		p.InternalInfo[vifKey] = id
		return p, nil
	})
}

func freePort(ports []*store.Port, want string) (best *store.Port) {
	for _, p := range ports {
		switch {
		case vifOf(p) != "" || want != "" && p.UUID != want:
		case best == nil || p.PXEEnabled && !best.PXEEnabled:
			best = p
		}
	}
	return best
}

// DetachVIF implements [API].
func (c *Conductor) DetachVIF(_ context.Context, node, vif string) error {
	return c.changeVIFs(node, func(ports []*store.Port) (*store.Port, error) {
		i := slices.IndexFunc(ports, func(p *store.Port) bool { return vif != "" && vifOf(p) == vif })
		if i < 0 {
			return nil, fmt.Errorf("%w: VIF %s is not attached to node %s", ErrInvalid, clip(vif, 255), node)
		}
		delete(ports[i].InternalInfo, vifKey)
		return ports[i], nil
	})
}

// changeVIFs changes one port of a node; change says which.
func (c *Conductor) changeVIFs(node string, change func([]*store.Port) (*store.Port, error)) error {
	return c.db.Batch(func(tx *store.Tx) error {
		n, err := findNode(tx, node)
		if err != nil {
			return err
		}
		if n.Run != 0 && RuleOf(n.ProvisionState).Kind != Wait {
			return locked(n)
		}
		var ports []*store.Port
		for p, err := range store.Ports.Where(tx, "node_uuid", n.UUID) {
			if err != nil {
				return err
			}
			ports = append(ports, p)
		}
		p, err := change(ports)
		if err != nil {
			return err
		}
		if n.ProvisionState == store.Active {
			p.Network = ""
			if vifOf(p) != "" {
				p.Network = tenantNet
			}
		}
		p.UpdatedAt = time.Now()
		return store.Ports.Put(tx, p)
	})
}
