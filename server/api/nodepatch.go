package api

import (
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"bessemer/store"
)

func patchNode(c *call) error {
	if err := c.only("reset_interfaces"); err != nil {
		return err
	}
	reset, err := c.resetInterfaces()
	if err != nil {
		return err
	}
	ops, err := c.patch()
	if err != nil {
		return err
	}
	roots := rootsOf(ops)
	if err := known(nodeAttrs, c.v, roots, "patch"); err != nil {
		return err
	}
	if reset && !slices.Contains(roots, "driver") {
		return invalid("The reset_interfaces parameter can only be used when changing the node's driver.")
	}
	n, err := c.updateNode(func(n *store.Node) (*store.Node, error) { return c.patched(n, ops, reset) })
	if err != nil {
		return err
	}
	c.query.Del("reset_interfaces")
	return nodes.show(c, http.StatusOK, n)
}

func (c *call) resetInterfaces() (bool, error) {
	s, ok := c.param("reset_interfaces")
	if !ok {
		return false, nil
	}
	if c.v < 45 {
		return false, notAcceptable("reset_interfaces", 45)
	}
	return parseBool("reset_interfaces", s)
}

func rootsOf(ops []patchOp) []string {
	var roots []string
	for _, o := range ops {
		if !slices.Contains(roots, o.root()) {
			roots = append(roots, o.root())
		}
	}
	return roots
}

// updateNode replaces the call's node by what change makes of it. change runs
// outside of the transaction, and again when another writer was faster.
func (c *call) updateNode(change func(*store.Node) (*store.Node, error)) (*store.Node, error) {
	for range 10 {
		old, err := c.node()
		if err != nil {
			return nil, err
		}
		n, err := change(old)
		if err != nil {
			return nil, err
		}
		n.UpdatedAt = time.Now().UTC()
		raced := false
		err = c.api.db.Batch(func(tx *store.Tx) error {
			now, err := store.Nodes.Get(tx, old.UUID)
			if err != nil {
				return err
			}
			if raced = !reflect.DeepEqual(now, old); raced {
				return nil
			}
			return putNode(tx, n)
		})
		if errors.Is(err, store.ErrNotFound) {
			return nil, noNode(c.path("node"))
		}
		if err != nil {
			return nil, c.inDoubt(err, n.UUID)
		}
		if !raced {
			c.api.conductor.NodeChanged(n.UUID)
			return n, nil
		}
	}
	return nil, refuse(http.StatusConflict, "Node %s is being changed by others all the time, please retry.", c.path("node"))
}

// patched returns a copy of a node with a patch applied.
func (c *call) patched(old *store.Node, ops []patchOp, reset bool) (*store.Node, error) {
	if err := updatable(old, ops, c.v); err != nil {
		return nil, err
	}
	doc, err := applyPatch(patchable(nodeAttrs, old), ops)
	if err != nil {
		return nil, err
	}
	n := old.Clone()
	if err := assign(nodeAttrs, n, doc); err != nil {
		return nil, err
	}
	if reset {
		resetTo(n, rootsOf(ops))
	}
	if err := changeable(old, n); err != nil {
		return nil, err
	}
	if old.Maintenance && !n.Maintenance {
		n.MaintenanceReason, n.Fault = "", ""
	}
	if !n.Protected {
		n.ProtectedReason = keepIf(n.ProtectedReason, ops, "protected_reason")
	}
	if !n.Retired {
		n.RetiredReason = keepIf(n.RetiredReason, ops, "retired_reason")
	}
	if err := c.checkNode(n, old); err != nil {
		return nil, err
	}
	if n.Driver != old.Driver || !maps.Equal(n.Interfaces, old.Interfaces) {
		c.api.fillInterfaces(n)
	}
	return n, nil
}

// keepIf drops a flag's reason with the flag, unless the patch itself sets it,
// which is then refused.
func keepIf(reason string, ops []patchOp, name string) string {
	for _, o := range ops {
		if o.root() == name && o.Op != "remove" {
			return reason
		}
	}
	return ""
}

// resetTo forgets the interfaces that a patch does not name, for the new
// driver's defaults to take their place.
func resetTo(n *store.Node, roots []string) {
	for kind := range n.Interfaces {
		if !slices.Contains(roots, kind+"_interface") {
			delete(n.Interfaces, kind)
		}
	}
}

// updatable says whether a node may be patched in the state that it is in.
func updatable(n *store.Node, ops []patchOp, v version) error {
	freeing := len(ops) == 1 && ops[0].Op == "remove" && ops[0].Path == "/instance_uuid"
	switch {
	case freeing && n.Maintenance:
	case n.TargetProvisionState != "" && !slices.Contains(updateAllowed, n.ProvisionState):
		return refuse(http.StatusConflict, "Node %s can not be updated while a state transition is in progress.", n.UUID)
	case n.ProvisionState == store.Inspecting && v >= 39:
		return refuse(http.StatusConflict, "Cannot update node %q while it is in state %q.", n.UUID, n.ProvisionState)
	}
	if held(n) {
		return locked(n)
	}
	return nil
}

// changeable says whether these changes to a node are allowed in its state.
func changeable(old, n *store.Node) error {
	if old.InstanceUUID != "" && n.InstanceUUID != "" && old.InstanceUUID != n.InstanceUUID {
		return refuse(http.StatusConflict, "Node %s is associated with instance %s.", n.UUID, old.InstanceUUID)
	}
	idle := []store.ProvisionState{store.Enroll, store.Inspecting, store.InspectWait, store.Manageable, store.Available}
	if slices.Contains(idle, old.ProvisionState) {
		return nil
	}
	if old.ResourceClass != "" && old.ResourceClass != n.ResourceClass {
		return fixed(old, "resource_class", idle)
	}
	if old.Maintenance || n.Maintenance {
		return nil
	}
	for _, k := range interfaceKinds {
		if old.Interfaces[k.kind] != n.Interfaces[k.kind] {
			return fixed(old, k.kind+"_interface", idle)
		}
	}
	if old.Driver != n.Driver {
		return fixed(old, "driver", idle)
	}
	return nil
}

func fixed(n *store.Node, name string, idle []store.ProvisionState) error {
	return refuse(http.StatusConflict, "Node %s can not have %s updated unless it is in one of allowed (%q) states. Current state is '%s'.", n.UUID, name, idle, n.ProvisionState)
}

// patchLabel is the arrow of a PATCH: seed 000 knows one, the instance_info
// that a deploy needs.
func patchLabel(c *call) string {
	ops, err := c.patch()
	if err == nil && slices.ContainsFunc(ops, func(o patchOp) bool { return strings.HasPrefix(o.Path, "/instance_info") }) {
		return store.LabelSetInstanceInfo
	}
	return "Update node"
}
