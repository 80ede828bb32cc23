package conductor

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
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

// TestOneBootChangeOnLenovo: where the agent has made a boot entry, the
// controller is not told of the disk as well (U-01); the diagram says why.
func TestOneBootChangeOnLenovo(t *testing.T) {
	for _, tt := range []struct {
		vendor string
		entry  any // what the agent says; nil: nothing, as Ironic's
		kept   bool
	}{
		{"Lenovo", nil, true},
		{"LENOVO Group", true, true},
		{"Lenovo", false, false},
		{"Acme", true, false},
	} {
		t.Run(fmt.Sprintf("%s %v", tt.vendor, tt.entry), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.m.polled, w.m.entry = true, tt.entry
			w.enroll(store.Available, func(n *store.Node) { n.Properties = map[string]any{"vendor": tt.vendor} })
			w.provision("active")
			w.wantState(w.settled(), store.Active)
			if set := w.seen.count("boot device disk (persistent)"); (set == 0) != tt.kept {
				t.Errorf("the controller was told of the disk %d times; seen:\n%s", set, strings.Join(w.seen.all(), "\n"))
			}
			why := ""
			for _, m := range w.messages() {
				if m.Label == store.LabelKeepBootDevice {
					why, _ = m.Detail["why"].(string)
				}
			}
			if strings.Contains(why, "has made a boot entry, and a machine of "+tt.vendor) != tt.kept {
				t.Errorf("says why: %q", why)
			}
			for _, a := range trace.Conformance(w.messages()) {
				if a.Label == store.LabelBootDeviceDisk && !a.Present {
					t.Error("the diagram does not say what the machine boots from")
				}
			}
		})
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
