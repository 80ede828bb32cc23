package conductor

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"bessemer/server/trace"
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

// TestDeployConforms draws what a client of OpenStack asks for first, and then
// holds everything that was recorded against the sequence of a direct deploy.
func TestDeployConforms(t *testing.T) {
	w := newWorld(t)
	w.m.polled = true
	w.enroll(store.Available)
	for _, label := range []string{store.LabelSetInstanceInfo, store.LabelValidate, store.LabelPlugVIFs, store.LabelSetProvisionState} {
		w.db.Record(t.Context(), store.Message{From: store.ClientP, To: store.API, Kind: store.Request, Label: label, Node: testNode})
	}
	w.provision("active", func(r *ProvisionRequest) { r.ConfigDrive = map[string]any{"user_data": "#cloud-config\n"} })
	w.wantState(w.settled(), store.Active)
	for _, a := range trace.Conformance(w.messages()) {
		if !a.Present {
			t.Errorf("arrow %d is absent, or misplaced (%v): %s -> %s: %s", a.N, a.Misplaced, a.From, a.To, a.Label)
		}
	}
}

// TestDownloadFromElsewhere deploys an image that no server of ours hands out:
// its download is drawn all the same, once, without the query that may sign
// the URL.
func TestDownloadFromElsewhere(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(testImage) }))
	t.Cleanup(server.Close)
	w := newWorld(t, func(c *Config) { c.Images = testImages{elsewhere: server.URL + "/os.raw?sig=secret"} })
	w.m.polled = true
	w.enroll(store.Available, func(n *store.Node) { n.InstanceInfo = map[string]any{"image_source": "elsewhere"} })
	w.provision("active")
	w.wantState(w.settled(), store.Active)
	var drawn []any
	for _, m := range w.messages() {
		if m.Label == store.LabelDownloadImage {
			drawn = append(drawn, m.Detail["url"])
		}
	}
	if len(drawn) != 1 || drawn[0] != server.URL+"/os.raw" {
		t.Errorf("downloads drawn: %v, want one of %s/os.raw", drawn, server.URL)
	}
}

func (w *world) messages() []store.Message {
	w.t.Helper()
	ms, err := w.db.MessagesAfter(0, 0, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return ms
}
