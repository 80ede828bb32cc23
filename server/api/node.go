package api

import (
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"

	"bessemer/server/conductor"
	"bessemer/store"
)

// node finds the node that the call's path names: by UUID, and from 1.5 on by
// name. Where ".json" was cut off, a name that ends in it goes first.
func (c *call) node() (*store.Node, error) { return c.findNode(c.path("node")) }

func (c *call) findNode(ident string) (*store.Node, error) {
	var n *store.Node
	err := c.api.db.View(func(tx *store.Tx) (err error) {
		n, err = c.lookUpNode(tx, ident)
		return err
	})
	return n, err
}

func (c *call) lookUpNode(tx *store.Tx, ident string) (*store.Node, error) {
	byName := c.own || c.v >= 5
	if !byName && !isUUID(ident) {
		return nil, notAcceptable("naming a node", 5)
	}
	if !isUUID(ident) && !logicalName.MatchString(ident) {
		return nil, noNode(ident)
	}
	if c.suffix && byName && strings.HasSuffix(c.route.path, "{node}") {
		if n, err := store.Nodes.By(tx, "name", ident+".json"); err == nil {
			return n, nil
		}
	}
	if isUUID(ident) {
		ident = strings.ToLower(ident)
	}
	n, err := store.FindNode(tx, ident)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noNode(ident)
	}
	return n, err
}

func noNode(ident string) error {
	return refuse(http.StatusNotFound, "Node %s could not be found.", printable(ident))
}

// printable is an identifier as it stands in a path, fit for a text.
func printable(s string) string {
	if len(s) > 255 || controlChars.MatchString(s) {
		return shown(s)
	}
	return s
}

// nodeFilters are the filters of lists of nodes.
var nodeFilters = []filter[store.Node]{
	{"instance_uuid", 1, func(_ *call, s string) (func(*store.Node) bool, error) {
		id, err := parseUUID("instance_uuid", s)
		return func(n *store.Node) bool { return n.InstanceUUID == id }, err
	}},
	{"chassis_uuid", 1, func(_ *call, s string) (func(*store.Node) bool, error) {
		id, err := parseUUID("chassis_uuid", s)
		return func(n *store.Node) bool { return n.ChassisUUID == id }, err
	}},
	{"associated", 1, isTrue("associated", func(n *store.Node) bool { return n.InstanceUUID != "" })},
	{"maintenance", 1, isTrue("maintenance", func(n *store.Node) bool { return n.Maintenance })},
	{"provision_state", 9, func(_ *call, s string) (func(*store.Node) bool, error) {
		if !slices.Contains(provisionStates, store.ProvisionState(s)) {
			return nil, invalid("Provision state %s is not valid", shown(s))
		}
		return func(n *store.Node) bool { return n.ProvisionState == store.ProvisionState(s) }, nil
	}},
	{"driver", 16, equals(func(n *store.Node) string { return n.Driver })},
	{"resource_class", 21, equals(func(n *store.Node) string { return n.ResourceClass })},
	{"fault", 42, func(_ *call, s string) (func(*store.Node) bool, error) {
		if !slices.Contains(faults, s) {
			return nil, invalid("Unrecognized fault %s is specified, allowed faults are %v", shown(s), faults)
		}
		return func(n *store.Node) bool { return n.Fault == s || s == "none" && n.Fault == "" }, nil
	}},
	{"conductor_group", 46, equals(func(n *store.Node) string { return n.ConductorGroup })},
	{"conductor", 49, func(c *call, s string) (func(*store.Node) bool, error) {
		return func(*store.Node) bool { return s == c.api.conductor.Hostname() }, nil
	}},
	{"owner", 50, equals(func(n *store.Node) string { return n.Owner })},
	{"description_contains", 51, func(_ *call, s string) (func(*store.Node) bool, error) {
		return func(n *store.Node) bool { return containsFold(n.Description, s) }, nil
	}},
	{"retired", 61, isTrue("retired", func(n *store.Node) bool { return n.Retired })},
	{"lessee", 65, equals(func(n *store.Node) string { return n.Lessee })},
	{"project", 65, func(_ *call, s string) (func(*store.Node) bool, error) {
		return func(n *store.Node) bool { return n.Owner == s || n.Lessee == s }, nil
	}},
	{"shard", 82, func(_ *call, s string) (func(*store.Node) bool, error) {
		shards := splitList(s)
		return func(n *store.Node) bool { return slices.Contains(shards, n.Shard) }, nil
	}},
	{"sharded", 82, isTrue("sharded", func(n *store.Node) bool { return n.Shard != "" })},
}

var faults = []string{"power failure", "clean failure", "rescue abort failure", "service failure", "none"}

func listNodes(c *call) error       { return nodesPage(c, false) }
func listNodesDetail(c *call) error { return nodesPage(c, true) }

func nodesPage(c *call, detailed bool) error {
	if err := c.only(names(nodeFilters)...); err != nil {
		return err
	}
	p, err := nodes.listing(c, detailed)
	if err != nil {
		return err
	}
	keep, err := filters(c, nodeFilters)
	if err != nil {
		return err
	}
	all, err := c.api.nodes.list(c.api.db)
	if err != nil {
		return err
	}
	return nodes.answer(c, p, all, keep)
}

// collect reads the records of a table.
func collect[T any](c *call, t *store.Table[T]) ([]*T, error) {
	var all []*T
	err := c.api.db.View(func(tx *store.Tx) (err error) {
		all, err = gather(t.All(tx))
		return err
	})
	return all, err
}

// gather reads records until they end or one cannot be read.
func gather[T any](records iter.Seq2[*T, error]) ([]*T, error) {
	var all []*T
	for v, err := range records {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func showNode(c *call) error {
	if err := c.only("fields"); err != nil {
		return err
	}
	n, err := c.node()
	if err != nil {
		return err
	}
	return nodes.show(c, http.StatusOK, n)
}

func deleteNode(c *call) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	err = c.api.db.Batch(func(tx *store.Tx) error {
		if n, err = store.Nodes.Get(tx, n.UUID); err != nil {
			return err
		}
		if err := deletable(n); err != nil {
			return err
		}
		return removeNode(tx, n)
	})
	if errors.Is(err, store.ErrNotFound) {
		return noNode(c.path("node"))
	}
	if err != nil {
		return c.inDoubt(err, n.UUID)
	}
	c.api.conductor.NodeChanged(n.UUID)
	return c.empty(http.StatusNoContent)
}

// deletable says whether a node may be deleted: at rest, without an instance,
// or in maintenance, which is how hopeless ones are got rid of.
func deletable(n *store.Node) error {
	switch {
	case n.Protected:
		return refuse(http.StatusForbidden, "Node %s is protected and can not be undeployed, rebuilt or deleted.", n.UUID)
	case n.InstanceUUID != "" && !n.Maintenance:
		return refuse(http.StatusConflict, "Node %s is associated with instance %s.", n.UUID, n.InstanceUUID)
	case held(n):
		return locked(n)
	case !n.Maintenance && !slices.Contains(deleteAllowed, n.ProvisionState):
		return refuse(http.StatusConflict, "Can not delete node %q while it is in provision state %q. Valid provision states to perform deletion are: %q, or set the node into maintenance mode",
			n.UUID, n.ProvisionState, deleteAllowed)
	}
	return nil
}

// held says whether a node is locked as Ironic means it. A run keeps its node's
// lock while it waits for the node; for clients the node is free then, and
// what they may do is told by its state.
func held(n *store.Node) bool {
	return n.Reservation != nil && conductor.RuleOf(n.ProvisionState).Kind != conductor.Wait
}

func locked(n *store.Node) error {
	return refuse(http.StatusConflict, "Node %s is locked by host %s, please retry after the current operation is completed.", n.UUID, n.Reservation.Holder)
}

// removeNode removes a node and what belongs to it. Its runs and messages
// stay: they are history. One that waits for the node ends.
func removeNode(tx *store.Tx, n *store.Node) error {
	if err := conductor.EndRun(tx, n, store.Aborted, "the node was deleted"); err != nil {
		return err
	}
	var ports []string
	for p, err := range store.Ports.Where(tx, "node_uuid", n.UUID) {
		if err != nil {
			return err
		}
		ports = append(ports, p.UUID)
	}
	for _, id := range ports {
		if err := store.Ports.Delete(tx, id); err != nil {
			return err
		}
	}
	if err := store.ConfigDrives.Delete(tx, n.UUID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return store.Nodes.Delete(tx, n.UUID)
}
