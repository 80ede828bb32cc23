package conductor

import (
	"context"
	"errors"

	"bessemer/store"
)

// Undeploy takes an instance off a node. Cleaning follows in the same trace.
var Undeploy = Workflow{
	Name:    "undeploy",
	Running: store.Deleting, Target: store.Available,
	Failed: store.Error,
	Steps: []Step{
		{Name: "power-off", Do: powerOffInstance, Tries: 3}, // Conductor -> BMC
		{Name: "unbind-tenant-net", Do: unbindTenant},       // Conductor -> DHCP
		{Name: "remove-configdrive", Do: removeConfigDrive}, // Conductor -> HTTPStore
		{Name: "forget-instance", Do: forgetInstance},       // Conductor -> DHCP
	},
	Then: "clean",
}

// powerOffInstance turns the node off; the boot that an aborted deploy wanted
// is forgotten with it.
func powerOffInstance(ctx context.Context, t *Task) error {
	t.Run.Ramdisk = nil
	if t.c.iface(t.Node, "deploy") == "fake" {
		return nil
	}
	return powerOff(ctx, t)
}

func removeConfigDrive(ctx context.Context, t *Task) error {
	return t.carry(ctx, store.HTTPStore, store.LabelRemoveDrive, func() error {
		node := t.Node.UUID
		t.Write(func(tx *store.Tx) error {
			if err := store.ConfigDrives.Delete(tx, node); !errors.Is(err, store.ErrNotFound) {
				return err
			}
			return nil
		})
		return nil
	})
}

// forgetInstance clears what the node knew of its instance, its VIFs
// included, as Ironic does.
func forgetInstance(_ context.Context, t *Task) error {
	t.Change(func(n *store.Node) {
		n.InstanceUUID, n.InstanceName, n.InstanceInfo = "", "", map[string]any{}
		n.Agent = store.Agent{}
	})
	return t.changePorts(func(p *store.Port) { delete(p.InternalInfo, vifKey) })
}
