package conductor

import (
	"context"

	"bessemer/store"
)

// Verify makes an enrolled node manageable: its controller must let us in and
// tell the power state.
var Verify = Workflow{
	Name:    "verify",
	Running: store.Verifying, Target: store.Manageable,
	Done: always(store.Manageable), Failed: store.Enroll,
	Steps: []Step{
		{Name: "identify-controller", Do: identify, Tries: 2}, // Conductor -> BMC
		{Name: "read-power-state", Do: readPower, Tries: 2},   // Conductor -> BMC
		{Name: "mark-manageable", Do: markManageable},         // Conductor -> Conductor
	},
}

// identify logs in to the controller and notes its vendor, as Ironic does.
func identify(ctx context.Context, t *Task) error {
	client, err := t.BMC()
	if err != nil {
		return final(err)
	}
	info, err := client.Identify(ctx)
	if err != nil {
		return hint(err)
	}
	vendor := clip(info.Vendor, 100)
	if vendor == "" {
		return nil
	}
	t.Change(func(n *store.Node) {
		if _, ok := n.Properties["vendor"]; ok {
			return
		}
		if n.Properties == nil {
			n.Properties = map[string]any{}
		}
		n.Properties["vendor"] = vendor
	})
	return nil
}

func readPower(ctx context.Context, t *Task) error {
	client, err := t.BMC()
	if err != nil {
		return final(err)
	}
	s, err := client.PowerState(ctx)
	if err != nil {
		return hint(err)
	}
	if s == "" {
		s = store.PowerError
	}
	t.setPower(s)
	return nil
}
