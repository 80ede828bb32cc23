package sim

import (
	"net/http"
	"strings"
	"testing"

	"bessemer/bmc/sim/flaw"
)

// Virtual drives have their quirks although nothing of ours uses them yet.
func TestVirtualMedia(t *testing.T) {
	const (
		ofSystem  = systemPath + "/VirtualMedia"
		ofManager = "/redfish/v1/Managers/node-1/VirtualMedia"
		insert    = ofManager + "/CD/Actions/VirtualMedia.InsertMedia"
		eject     = ofManager + "/CD/Actions/VirtualMedia.EjectMedia"
		image     = `{"Image": "http://10.0.0.1/a.iso"}`
	)
	for _, tt := range []struct {
		quirk              flaw.ID
		method, path, body string
		want, without      int // status with the quirk, and without
	}{
		{"V-01", "GET", ofSystem, "", 404, 200},
		{"V-01", "GET", ofSystem + "/CD", "", 404, 200},
		{"V-01", "GET", ofManager, "", 200, 200},
		{"V-03", "POST", insert, `{"Image": "http://10.0.0.1/a.iso", "Inserted": true}`, 400, 204},
		{"V-03", "POST", insert, image, 204, 204},
		{"V-04", "POST", insert, image, 404, 204},
		{"V-04", "PATCH", ofManager + "/CD", image, 400, 200},
		{"V-04", "PATCH", ofManager + "/CD", `{"Image": "http://10.0.0.1/a.iso", "Inserted": true}`, 200, 200},
		{"V-04", "PATCH", ofManager + "/CD", `{"Image": null}`, 200, 200},
		{"V-05", "POST", insert, `{"Image": "http://10.0.0.1/a.iso?node=1"}`, 400, 204},
		{"V-05", "POST", insert, `{"Image": "http://10.0.0.1/a"}`, 400, 204},
		{"V-05", "POST", insert, image, 204, 204},
		{"V-06", "POST", eject, "", 415, 204},
		{"V-06", "POST", eject, "{}", 204, 204},
		{"V-07", "POST", eject, "{}", 400, 204},
		{"", "POST", insert, `{"Image": ""}`, 400, 400},
		{"", "POST", ofManager + "/Tape/Actions/VirtualMedia.InsertMedia", image, 404, 404},
		{"B-15", "PATCH", systemPath + "/SecureBoot", `{"SecureBootEnable": true}`, 204, 204},
		{"B-15", "PATCH", systemPath + "/SecureBoot", `{"SecureBootEnable": "yes"}`, 400, 400},
	} {
		for _, on := range []bool{true, false} {
			rf, _ := newTestRedfish(RedfishOptions{Controllers: func(m Machine) *Controller { return NewController(m, flaw.NewSet(1)) }})
			c := rf.controllers[0]
			c.Flaws.Turn(on, tt.quirk)
			want := map[bool]int{true: tt.want, false: tt.without}[on]
			if resp, d := do(t, rf, tt.method, tt.path, tt.body); resp.StatusCode != want {
				t.Errorf("%s %v: %s %s %s: got %s %v, want %d", tt.quirk, on, tt.method, tt.path, tt.body, resp.Status, d, want)
			}
			if tt.path == insert && want == http.StatusNoContent && c.Media()[0].Image == "" {
				t.Errorf("%s %v: %s inserted nothing", tt.quirk, on, tt.body)
			}
		}
	}
}

func TestControllerDetails(t *testing.T) {
	rf, _ := newTestRedfish(RedfishOptions{Controllers: func(m Machine) *Controller {
		return NewController(m, flaw.NewSet(1, "V-02", "R-23", "B-15"))
	}})
	if _, d := do(t, rf, "GET", "/redfish/v1/Managers/node-1", ""); !strings.HasPrefix(d["DateTime"].(string), "1970-01-01") {
		t.Errorf("R-23: the clock says %v", d["DateTime"])
	}
	if _, d := do(t, rf, "GET", systemPath+"/VirtualMedia/CD", ""); len(d["MediaTypes"].([]any)) != 1 {
		t.Errorf("V-02: the drive is for %v", d["MediaTypes"])
	}
	for _, tt := range []struct {
		change string
		want   int
	}{{"true", 500}, {"false", 200}} {
		do(t, rf, "PATCH", systemPath+"/SecureBoot", `{"SecureBootEnable": `+tt.change+`}`)
		if resp, _ := do(t, rf, "GET", systemPath+"/SecureBoot", ""); resp.StatusCode != tt.want {
			t.Errorf("B-15: after setting %s: %s", tt.change, resp.Status)
		}
	}
	rf.controllers[0].Log("Warning", "The inlet is warm.")
	if _, d := do(t, rf, "GET", systemPath+"/LogServices/SEL/Entries", ""); d["Members@odata.count"] != 1.0 {
		t.Errorf("log %v", d)
	}
	do(t, rf, "POST", systemPath+"/LogServices/SEL/Actions/LogService.ClearLog", "{}")
	if n := len(rf.controllers[0].Entries()); n != 0 {
		t.Errorf("%d entries in a cleared log", n)
	}
}
