package conductor

import (
	"fmt"
	"time"

	"bessemer/store"
)

// fence holds the nodes of a store that was restored from a backup: what has
// happened to the machines since, it does not know. A run that went on then
// may have ended long ago, and its node may carry an instance now. So all
// runs are ended, and every node that could be acted on is in maintenance
// until a person has looked at it.
func (c *Conductor) fence() error {
	held := 0
	err := c.db.Update(func(tx *store.Tx) error {
		backup, restored, err := tx.Restored()
		if err != nil || !restored {
			return err
		}
		var all []*store.Node
		for n, err := range store.Nodes.All(tx) {
			if err != nil {
				return err
			}
			if n.ProvisionState != store.Enroll {
				all = append(all, n)
			}
		}
		for _, n := range all {
			if err := fenceNode(tx, n, backup); err != nil {
				return err
			}
		}
		held = len(all)
		return tx.ClearRestored()
	})
	if err == nil && held > 0 {
		c.log.Warn().Int("nodes", held).
			Msg("the store was restored from a backup; its nodes are in maintenance until somebody has looked at them")
	}
	return err
}

func fenceNode(tx *store.Tx, n *store.Node, backup time.Time) error {
	why := fmt.Sprintf("restored from a backup of %s: make sure that the machine still is what this says", backup.UTC().Format(time.RFC3339))
	if err := EndRun(tx, n, store.Aborted, why); err != nil {
		return err
	}
	if isTransient(n.ProvisionState) {
		n.LastError = fmt.Sprintf("%s was under way: %s", n.ProvisionState, why)
		n.ProvisionState, n.ProvisionUpdatedAt = failedState(n.ProvisionState), time.Now()
	}
	if !n.Maintenance || n.Fault != "" { // a person's own reason stays
		n.Maintenance, n.MaintenanceReason, n.Fault = true, why, ""
	}
	n.Reservation, n.Agent, n.UpdatedAt = nil, store.Agent{}, time.Now()
	return store.Nodes.Put(tx, n)
}
