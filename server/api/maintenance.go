package api

import (
	"errors"
	"net/http"
	"time"

	"bessemer/store"
)

func setMaintenance(c *call) error {
	var body struct {
		Reason *string `json:"reason"`
	}
	if err := c.decode(&body); err != nil {
		return err
	}
	reason := ""
	if body.Reason != nil {
		var err error
		if reason, err = parseText("reason", 4096, *body.Reason); err != nil {
			return err
		}
	}
	return c.maintain(true, reason)
}

func clearMaintenance(c *call) error { return c.maintain(false, "") }

// maintain sets a node's maintenance flag. It is allowed in every state and
// while the node is locked: it is how a person stops what goes wrong.
func (c *call) maintain(on bool, reason string) error {
	err := c.changeNode(func(n *store.Node) error {
		n.Maintenance, n.MaintenanceReason = on, reason
		if !on {
			n.Fault = ""
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.empty(http.StatusAccepted)
}

// changeNode changes the call's node as it is when it is saved.
func (c *call) changeNode(change func(*store.Node) error) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	err = c.api.db.Batch(func(tx *store.Tx) error {
		n, err := store.Nodes.Get(tx, n.UUID)
		if errors.Is(err, store.ErrNotFound) {
			return noNode(c.path("node"))
		}
		if err != nil {
			return err
		}
		if err := change(n); err != nil {
			return err
		}
		n.UpdatedAt = time.Now().UTC()
		return store.Nodes.Put(tx, n)
	})
	if err != nil {
		return c.inDoubt(err, n.UUID)
	}
	c.api.conductor.NodeChanged(n.UUID)
	return nil
}
