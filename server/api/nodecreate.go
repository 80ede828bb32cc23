package api

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"bessemer/store"
)

// reservedNames cannot be names of nodes: they are words of the API's paths.
var reservedNames = []string{
	"detail", "maintenance", "management", "ports", "portgroups", "states", "vendor_passthru", "volume",
	"traits", "vifs", "bios", "allocation", "history", "inventory", "children", "firmware", "vmedia", "validate",
}

func createNode(c *call) error {
	if err := c.only(); err != nil {
		return err
	}
	sent, err := c.object()
	if err != nil {
		return err
	}
	n, err := c.newNode(sent)
	if err != nil {
		return err
	}
	err = c.api.db.Batch(func(tx *store.Tx) error {
		if _, err := store.Nodes.Get(tx, n.UUID); err == nil {
			return refuse(http.StatusConflict, "A node with UUID %s already exists.", n.UUID)
		}
		return putNode(tx, n)
	})
	if err != nil {
		return c.inDoubt(err, n.UUID)
	}
	c.api.conductor.NodeChanged(n.UUID)
	c.w.Header().Set("Location", c.url("/v1/nodes/"+n.UUID))
	return nodes.show(c, http.StatusCreated, n)
}

// newID takes the UUID that a client has chosen out of what it sent, or makes
// one.
func newID(sent map[string]any) (string, error) {
	id := sent["uuid"]
	delete(sent, "uuid")
	if id == nil {
		return uuid.NewString(), nil
	}
	s, ok := id.(string)
	if !ok {
		return "", invalid("Expected UUID for uuid: %s", shown(id))
	}
	return parseUUID("uuid", s)
}

// newNode makes the node that a POST describes, or says what is wrong with it.
func (c *call) newNode(sent map[string]any) (*store.Node, error) {
	id, err := newID(sent)
	if err != nil {
		return nil, err
	}
	if err := known(nodeAttrs, c.v, slices.Sorted(maps.Keys(sent)), "set"); err != nil {
		return nil, err
	}
	if _, ok := sent["driver"]; !ok {
		return nil, invalid("Missing mandatory value: driver")
	}
	n := &store.Node{CreatedAt: time.Now().UTC(), ProvisionState: firstState(c.v)}
	if err := assign(nodeAttrs, n, sent); err != nil {
		return nil, err
	}
	n.UUID = id
	if err := c.checkNode(n, nil); err != nil {
		return nil, err
	}
	c.api.fillInterfaces(n)
	return n, nil
}

// firstState is where a new node begins: enroll since 1.11, available before.
func firstState(v version) store.ProvisionState {
	if v < 11 {
		return store.Available
	}
	return store.Enroll
}

// checkNode checks what the attributes alone do not tell. old is the node as
// it was, nil for a new one.
func (c *call) checkNode(n, old *store.Node) error {
	n.ConductorGroup = strings.ToLower(n.ConductorGroup)
	if n.Name != "" && (old == nil || n.Name != old.Name) {
		if err := checkName(n.Name, c.v); err != nil {
			return err
		}
	}
	kept := &store.Node{}
	if old != nil {
		kept = old
	}
	if err := unmask("driver_info", n.DriverInfo, kept.DriverInfo); err != nil {
		return err
	}
	if err := unmask("instance_info", n.InstanceInfo, kept.InstanceInfo); err != nil {
		return err
	}
	if n.Protected && (old == nil || !old.Protected) && n.ProvisionState != store.Active && n.ProvisionState != store.Rescue {
		return refuse(http.StatusConflict, "Node %s can only be made protected in provision states 'active' or 'rescue', the current state is '%s'", n.UUID, n.ProvisionState)
	}
	if !n.Protected && n.ProtectedReason != "" {
		return invalid("protected_reason can only be set on a protected node")
	}
	if !n.Retired && n.RetiredReason != "" {
		return invalid("retired_reason can only be set on a retired node")
	}
	if n.Retired && (old == nil || !old.Retired) && n.ProvisionState == store.Available {
		return refuse(http.StatusConflict, "Node %s can not be retired while it is available; move it to manageable first", n.UUID)
	}
	return c.api.conductor.CheckDriver(n)
}

func checkName(name string, v version) error {
	if !isName(name, v) {
		return invalid("Invalid name %s: it must be 1 to 255 of the characters A-Z a-z 0-9 . _ ~ - and no UUID", shown(name))
	}
	if slices.Contains(reservedNames, name) {
		return invalid("The word %s is reserved and can not be used as a node name. Reserved words are: %s.", shown(name), strings.Join(reservedNames, ", "))
	}
	return nil
}

// fillInterfaces writes down the driver's default for each aspect that the
// client did not choose, so that a later default does not change the node.
func (a *API) fillInterfaces(n *store.Node) {
	if n.Interfaces == nil {
		n.Interfaces = map[string]string{}
	}
	for _, k := range interfaceKinds {
		if name := a.interfaceOf(n, k.kind); name != "" {
			n.Interfaces[k.kind] = name
		}
	}
}

// putNode stores a node and says in Ironic's words which of its unique values
// another one has.
func putNode(tx *store.Tx, n *store.Node) error {
	err := store.Nodes.Put(tx, n)
	k, ok := errors.AsType[*store.KeyError](err)
	if !ok || !errors.Is(err, store.ErrConflict) {
		return err
	}
	if k.Index == "instance_uuid" {
		return refuse(http.StatusConflict, "Instance %s is already associated with node %s.", n.InstanceUUID, k.Holder)
	}
	return refuse(http.StatusConflict, "A node with %s %s already exists: %s.", k.Index, shown(k.Key), k.Holder)
}
