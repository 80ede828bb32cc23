package conductor

import (
	"bytes"
	"testing"

	"bessemer/store"
)

func TestDeployDrawsTheSequenceDiagram(t *testing.T) {
	w := newWorld(t)
	w.m.polled = true
	w.enroll(store.Available)
	w.provision("active", func(r *ProvisionRequest) {
		r.ConfigDrive = map[string]any{"meta_data": map[string]any{"hostname": "h1"}, "user_data": "#cloud-config\n"}
	})
	n := w.settled()
	w.wantState(n, store.Active)
	golden(t, "deploy.seq", diagram(t, w.db))
	if disk, _ := w.m.content(); !bytes.Equal(disk, testImage) {
		t.Errorf("the disk has %d bytes that are not the image", len(disk))
	}
	b, err := w.BootDevice(t.Context(), testNode)
	if err != nil || w.m.starts() != 2 || b.Device != "disk" || !b.Persistent {
		t.Errorf("booted %d times, boot device %v (%v)", w.m.starts(), b, err)
	}
	if n.PowerState != store.PowerOn || n.Agent.Token != "" || n.Reservation != nil || n.DeployStep != nil || n.TargetProvisionState != "" {
		t.Errorf("node is left as %+v", n)
	}
}
