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
	if !bytes.Equal(w.m.disk, testImage) {
		t.Errorf("the disk has %d bytes that are not the image", len(w.m.disk))
	}
	if w.m.boots != 2 || w.m.boot.Device != "disk" || !w.m.boot.Persistent {
		t.Errorf("booted %d times, boot device %v", w.m.boots, w.m.boot)
	}
	if n.PowerState != store.PowerOn || n.Agent.Token != "" || n.Reservation != nil || n.DeployStep != nil || n.TargetProvisionState != "" {
		t.Errorf("node is left as %+v", n)
	}
}
