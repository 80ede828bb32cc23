package api

import (
	"errors"
	"net/http"

	"bessemer/store"
)

// listDiscovered lists machines that asked to boot but are no node's.
func listDiscovered(c *call) error {
	if err := c.only(); err != nil {
		return err
	}
	all, err := collect(c, store.DiscoveredMachines)
	if err != nil {
		return err
	}
	c.json(http.StatusOK, map[string]any{"discovered": orNoneOf(all)})
	return nil
}

func deleteDiscovered(c *call) error {
	mac, err := parseMAC("mac", c.path("mac"))
	if err != nil {
		return err
	}
	err = c.api.db.Batch(func(tx *store.Tx) error { return store.DiscoveredMachines.Delete(tx, mac) })
	if errors.Is(err, store.ErrNotFound) {
		return refuse(http.StatusNotFound, "No machine %s is among the discovered ones", mac)
	}
	if err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// listLeases lists the addresses that our DHCP server has given.
func listLeases(c *call) error {
	if err := c.only(); err != nil {
		return err
	}
	all, err := collect(c, store.Leases)
	if err != nil {
		return err
	}
	c.json(http.StatusOK, map[string]any{"leases": orNoneOf(all)})
	return nil
}
