package api

import (
	"net/http"

	"bessemer/store"
)

func validateNode(c *call) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	return c.validate(n)
}

// validateNodeByQuery is the old way to name the node: ?node= or ?node_uuid=.
func validateNodeByQuery(c *call) error {
	if err := c.only("node", "node_uuid"); err != nil {
		return err
	}
	ident, ok := c.param("node_uuid")
	if !ok {
		ident, ok = c.param("node")
	}
	if !ok {
		return invalid("Missing mandatory value: node")
	}
	n, err := c.findNode(ident)
	if err != nil {
		return err
	}
	return c.validate(n)
}

func (c *call) validate(n *store.Node) error {
	ctx, cancel := c.lasting(bmcTime)
	defer cancel()
	v, err := c.api.conductor.Validate(ctx, n.UUID)
	if err != nil {
		return err
	}
	c.json(http.StatusOK, v)
	return nil
}
