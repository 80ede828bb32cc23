package api

import (
	"net/http"
	"time"
)

func listVIFs(c *call) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	ids, err := c.api.conductor.VIFs(c.ctx, n.UUID)
	if err != nil {
		return err
	}
	type vif struct {
		ID string `json:"id"`
	}
	out := make([]vif, len(ids))
	for i, id := range ids {
		out[i].ID = id
	}
	c.json(http.StatusOK, map[string]any{"vifs": out})
	return nil
}

func attachVIF(c *call) error {
	vif, err := c.object()
	if err != nil {
		return err
	}
	id, _ := vif["id"].(string)
	if !isUUID(id) && !logicalName.MatchString(id) {
		return invalid("Expected UUID or name for id: %s", shown(vif["id"]))
	}
	_, port := vif["port_uuid"]
	_, group := vif["portgroup_uuid"]
	if (port || group) && c.v < 67 {
		return notAcceptable("port_uuid and portgroup_uuid", 67)
	}
	if port && group {
		return invalid("Cannot specify both port_uuid and portgroup_uuid")
	}
	n, err := c.node()
	if err != nil {
		return err
	}
	ctx, cancel := c.lasting(time.Minute)
	defer cancel()
	if err := c.api.conductor.AttachVIF(ctx, n.UUID, vif); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func detachVIF(c *call) error {
	id := c.path("vif")
	if !isUUID(id) && !logicalName.MatchString(id) {
		return invalid("Expected UUID or name for vif_id: %s", shown(id))
	}
	n, err := c.node()
	if err != nil {
		return err
	}
	ctx, cancel := c.lasting(time.Minute)
	defer cancel()
	if err := c.api.conductor.DetachVIF(ctx, n.UUID, id); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}
