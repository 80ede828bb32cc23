package api

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"bessemer/store"
)

func listPorts(c *call) error       { return portsPage(c, false, nil) }
func listPortsDetail(c *call) error { return portsPage(c, true, nil) }

func listNodePorts(c *call) error       { return nodePortsPage(c, false) }
func listNodePortsDetail(c *call) error { return nodePortsPage(c, true) }

func nodePortsPage(c *call, detailed bool) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	return portsPage(c, detailed, n)
}

func portsPage(c *call, detailed bool, of *store.Node) error {
	if err := c.only(names(portFilters)...); err != nil {
		return err
	}
	p, err := ports.listing(c, detailed)
	if err != nil {
		return err
	}
	keep, err := filters(c, portFilters)
	if err != nil {
		return err
	}
	if of == nil {
		if of, err = c.namedNode(); err != nil {
			return err
		}
	}
	all, err := c.portsOf(of)
	if err != nil {
		return err
	}
	return ports.answer(c, p, all, keep)
}

// namedNode is the node whose ports alone a list's filters ask for; nil for
// none.
func (c *call) namedNode() (*store.Node, error) {
	for _, name := range []string{"node_uuid", "node"} {
		if ident, ok := c.param(name); ok {
			return c.findNode(ident)
		}
	}
	return nil, nil
}

// portsOf reads a node's ports, or all of them.
func (c *call) portsOf(n *store.Node) (all []*store.Port, err error) {
	if n == nil {
		return c.api.ports.list(c.api.db)
	}
	err = c.api.db.View(func(tx *store.Tx) (err error) {
		all, err = gather(store.Ports.Where(tx, "node_uuid", n.UUID))
		return err
	})
	return all, err
}

// port finds the port that the path names, by UUID or address.
func (c *call) port() (*store.Port, error) {
	ident := c.path("port")
	var p *store.Port
	err := c.api.db.View(func(tx *store.Tx) (err error) {
		if isUUID(ident) {
			p, err = store.Ports.Get(tx, strings.ToLower(ident))
		} else {
			p, err = store.Ports.By(tx, "address", strings.ToLower(ident))
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, noPort(ident)
	}
	return p, err
}

func noPort(ident string) error {
	return refuse(http.StatusNotFound, "Port %s could not be found.", printable(ident))
}

func showPort(c *call) error {
	if err := c.only("fields"); err != nil {
		return err
	}
	p, err := c.port()
	if err != nil {
		return err
	}
	return ports.show(c, http.StatusOK, p)
}

func createPort(c *call) error {
	if err := c.only(); err != nil {
		return err
	}
	sent, err := c.object()
	if err != nil {
		return err
	}
	p, err := c.newPort(sent)
	if err != nil {
		return err
	}
	err = c.api.db.Batch(func(tx *store.Tx) error {
		if _, err := store.Nodes.Get(tx, p.NodeUUID); err != nil {
			return invalid("Node %s could not be found.", p.NodeUUID)
		}
		if _, err := store.Ports.Get(tx, p.UUID); err == nil {
			return refuse(http.StatusConflict, "A port with UUID %s already exists.", p.UUID)
		}
		if err := putPort(tx, p); err != nil {
			return err
		}
		return forgetDiscovered(tx, p.Address)
	})
	if err != nil {
		return c.inDoubt(err, p.NodeUUID)
	}
	c.api.conductor.NodeChanged(p.NodeUUID)
	c.w.Header().Set("Location", c.url("/v1/ports/"+p.UUID))
	return ports.show(c, http.StatusCreated, p)
}

func (c *call) newPort(sent map[string]any) (*store.Port, error) {
	id, err := newID(sent)
	if err != nil {
		return nil, err
	}
	if err := known(portAttrs, c.v, slices.Sorted(maps.Keys(sent)), "set"); err != nil {
		return nil, err
	}
	for _, must := range []string{"address", "node_uuid"} {
		if sent[must] == nil {
			return nil, invalid("Missing mandatory value: %s", must)
		}
	}
	p := &store.Port{UUID: id, CreatedAt: time.Now().UTC()}
	if err := assign(portAttrs, p, sent); err != nil {
		return nil, err
	}
	return p, checkPort(p, sent)
}

// forgetDiscovered drops a machine from the discovered ones once a port has
// its address.
func forgetDiscovered(tx *store.Tx, mac string) error {
	err := store.DiscoveredMachines.Delete(tx, mac)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func patchPort(c *call) error {
	if err := c.only(); err != nil {
		return err
	}
	ops, err := c.patch()
	if err != nil {
		return err
	}
	if err := known(portAttrs, c.v, rootsOf(ops), "patch"); err != nil {
		return err
	}
	p, err := c.port()
	if err != nil {
		return err
	}
	var was, is string // the node that it is of
	err = c.api.db.Batch(func(tx *store.Tx) error {
		old, err := store.Ports.Get(tx, p.UUID)
		if errors.Is(err, store.ErrNotFound) {
			return noPort(c.path("port"))
		}
		if err != nil {
			return err
		}
		was = old.NodeUUID
		if p, err = c.patchedPort(tx, old, ops); err != nil {
			return err
		}
		is = p.NodeUUID
		return putPort(tx, p)
	})
	if err != nil {
		return c.inDoubt(err, was, is)
	}
	c.api.conductor.NodeChanged(was)
	if is != was {
		c.api.conductor.NodeChanged(is)
	}
	return ports.show(c, http.StatusOK, p)
}

func (c *call) patchedPort(tx *store.Tx, old *store.Port, ops []patchOp) (*store.Port, error) {
	doc, err := applyPatch(patchable(portAttrs, old), ops)
	if err != nil {
		return nil, err
	}
	if doc["address"] == nil || doc["node_uuid"] == nil {
		return nil, invalid("address and node_uuid are mandatory attributes and can not be removed")
	}
	p := *old
	if err := assign(portAttrs, &p, doc); err != nil {
		return nil, err
	}
	if err := checkPort(&p, doc); err != nil {
		return nil, err
	}
	for _, id := range []string{old.NodeUUID, p.NodeUUID} {
		n, err := store.Nodes.Get(tx, id)
		if err != nil {
			return nil, invalid("Node %s could not be found.", id)
		}
		if err := portChangeable(n, old, &p, c.v); err != nil {
			return nil, err
		}
	}
	p.UpdatedAt = time.Now().UTC()
	return &p, nil
}

// portChangeable says whether these changes to a port are allowed in its
// node's state.
func portChangeable(n *store.Node, old, p *store.Port, v version) error {
	switch {
	case n.ProvisionState == store.Inspecting && v >= 39:
		return refuse(http.StatusConflict, "Cannot update port %q on %q while it is in state %q.", p.UUID, n.UUID, n.ProvisionState)
	case held(n):
		return locked(n)
	case n.Maintenance:
		return nil
	case (n.ProvisionState == store.Active || n.InstanceUUID != "") && old.Address != p.Address:
		return refuse(http.StatusConflict, "Cannot update hardware address for port %s as node %s is active or has instance UUID assigned", p.UUID, n.UUID)
	case slices.Contains([]store.ProvisionState{store.Enroll, store.Inspecting, store.InspectWait, store.Manageable}, n.ProvisionState):
		return nil
	case old.PXEEnabled != p.PXEEnabled || old.PhysicalNetwork != p.PhysicalNetwork || old.PortgroupUUID != p.PortgroupUUID ||
		!maps.EqualFunc(old.LocalLinkConnection, p.LocalLinkConnection, func(a, b any) bool { return a == b }):
		return refuse(http.StatusConflict, "Port %s can not have any connectivity attributes (pxe_enabled, portgroup_uuid, physical_network, local_link_connection) updated unless node %s is in a enroll, inspecting, inspect wait, manageable state or in maintenance mode. The current state is %s.", p.UUID, n.UUID, n.ProvisionState)
	}
	return nil
}

func deletePort(c *call) error {
	p, err := c.port()
	if err != nil {
		return err
	}
	err = c.api.db.Batch(func(tx *store.Tx) error {
		n, err := store.Nodes.Get(tx, p.NodeUUID)
		if err == nil && held(n) {
			return locked(n)
		}
		vif, _ := p.InternalInfo["tenant_vif_port_id"].(string)
		if err == nil && vif != "" && !n.Maintenance {
			return refuse(http.StatusConflict, "Cannot delete the port %s as it is bound to VIF %s for use.", p.UUID, vif)
		}
		return store.Ports.Delete(tx, p.UUID)
	})
	if errors.Is(err, store.ErrNotFound) {
		return noPort(c.path("port"))
	}
	if err != nil {
		return c.inDoubt(err, p.NodeUUID)
	}
	c.api.conductor.NodeChanged(p.NodeUUID)
	return c.empty(http.StatusNoContent)
}
