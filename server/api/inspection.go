package api

import (
	"encoding/json"
	"net/http"
	"time"

	"bessemer/agent/wire"
	"bessemer/server/auth"
	"bessemer/store"
)

// Bounds of an inventory: the ramdisk network is not to be trusted.
const (
	maxInterfaces = 256
	maxDisks      = 2048
	maxInventory  = 256 << 10 // bytes as kept
)

// continueInspection takes the inventory that a ramdisk found and keeps it
// with its node. Ironic-Python-Agent sends it without a version, so that it
// must work at 1.1; the endpoint proper came with 1.84.
func continueInspection(c *call) error {
	if c.v != minVersion {
		return refuse(http.StatusNotFound, "API version 1.84 or newer is required")
	}
	if err := c.only(); err != nil {
		return err
	}
	var body struct {
		Inventory *wire.Inventory `json:"inventory"`
	}
	if err := c.lenient(&body); err != nil {
		return err
	}
	if body.Inventory == nil {
		return invalid("Missing mandatory value: inventory")
	}
	inv := body.Inventory
	if len(inv.Interfaces) > maxInterfaces || len(inv.Disks) > maxDisks {
		return invalid("The inventory has more than %d interfaces or %d disks", maxInterfaces, maxDisks)
	}
	var macs []string
	for _, i := range inv.Interfaces {
		macs = append(macs, i.MACAddress)
	}
	n := c.nodeOf(validMACs(macs), "")
	if n == nil || !expectsRamdisk(n, auth.Source(c.r)) {
		return refuse(http.StatusNotFound, "Resource could not be found.")
	}
	if err := c.keepInventory(n.UUID, inv); err != nil {
		return err
	}
	c.json(http.StatusOK, map[string]string{"uuid": n.UUID})
	return nil
}

func (c *call) keepInventory(node string, inv *wire.Inventory) error {
	raw, err := json.Marshal(inv)
	if err != nil {
		return err
	}
	if len(raw) > maxInventory {
		return invalid("The inventory is larger than the %d bytes that are kept", maxInventory)
	}
	var kept any
	if err := json.Unmarshal(raw, &kept); err != nil {
		return err
	}
	return c.api.db.Batch(func(tx *store.Tx) error {
		n, err := store.Nodes.Get(tx, node)
		if err != nil {
			return err
		}
		n = n.Clone()
		if n.DriverInternalInfo == nil {
			n.DriverInternalInfo = map[string]any{}
		}
		n.DriverInternalInfo["inventory"] = kept
		n.UpdatedAt = time.Now().UTC()
		return store.Nodes.Put(tx, n)
	})
}

// lenient reads the body into v and ignores what it does not know: agents of
// other versions say more, and it does no harm.
func (c *call) lenient(v any) error {
	if c.body == nil {
		return invalid("Invalid request body: it must not be empty")
	}
	if err := json.Unmarshal(c.body, v); err != nil {
		return invalid("Invalid request body: it does not have the expected form")
	}
	return nil
}
