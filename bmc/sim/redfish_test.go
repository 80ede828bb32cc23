package sim

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

const systemPath = "/redfish/v1/Systems/node-1"

// do sends one request as the administrator, with headers as pairs.
func do(t *testing.T, rf *Redfish, method, path, body string, header ...string) (*http.Response, doc) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.SetBasicAuth("admin", "secret")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	rf.ServeHTTP(w, r)
	var d doc
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
			t.Fatalf("%s %s: answer is not JSON: %s", method, path, w.Body)
		}
	}
	return w.Result(), d
}

func newTestRedfish(o RedfishOptions) (*Redfish, *Memory) {
	o.User, o.Password = "admin", "secret"
	m := NewMemory(testSpec(), 0)
	return NewRedfish(o, m), m
}

func TestRedfishRefusals(t *testing.T) {
	for _, tt := range []struct {
		name, method, path, body string
		want                     int
		id                       string
	}{
		{"no such resource", "GET", "/redfish/v1/Nothing", "", 404, "ResourceMissingAtURI"},
		{"no such system", "GET", "/redfish/v1/Systems/x", "", 404, "ResourceMissingAtURI"},
		{"no such card", "GET", systemPath + "/EthernetInterfaces/NIC9", "", 404, "ResourceMissingAtURI"},
		{"no such drive", "GET", systemPath + "/Storage/1/Drives/x", "", 404, "ResourceMissingAtURI"},
		{"outside", "GET", "/etc/passwd", "", 404, "ResourceMissingAtURI"},
		{"method", "DELETE", systemPath, "", 405, "OperationNotAllowed"},
		{"get of an action", "GET", systemPath + "/Actions/ComputerSystem.Reset", "", 405, "OperationNotAllowed"},
		{"not JSON", "PATCH", systemPath, "{", 400, "MalformedJSON"},
		{"a list", "PATCH", systemPath, "[1]", 400, "MalformedJSON"},
		{"read only property", "PATCH", systemPath, `{"PowerState": "On"}`, 400, "PropertyNotWritable"},
		{"boot is no object", "PATCH", systemPath, `{"Boot": "Pxe"}`, 400, "PropertyValueNotInList"},
		{"unknown target", "PATCH", systemPath, `{"Boot": {"BootSourceOverrideTarget": "Floppy"}}`, 400, "PropertyValueNotInList"},
		{"unknown mode", "PATCH", systemPath, `{"Boot": {"BootSourceOverrideMode": "OpenFirmware"}}`, 400, "PropertyValueNotInList"},
		{"unknown boot property", "PATCH", systemPath, `{"Boot": {"BootNext": "x"}}`, 400, "PropertyNotWritable"},
		{"no reset type", "POST", systemPath + "/Actions/ComputerSystem.Reset", `{}`, 400, "ActionParameterMissing"},
		{"unknown reset type", "POST", systemPath + "/Actions/ComputerSystem.Reset", `{"ResetType": "Nmi"}`, 400, "PropertyValueNotInList"},
		{"restart while off", "POST", systemPath + "/Actions/ComputerSystem.Reset", `{"ResetType": "ForceRestart"}`, 409, "ActionNotSupported"},
		{"unknown attribute", "PATCH", systemPath + "/Bios/Settings", `{"Attributes": {"Turbo": true}}`, 400, "PropertyNotWritable"},
		{"unknown boot mode", "PATCH", systemPath + "/Bios/Settings", `{"Attributes": {"BootMode": 7}}`, 400, "PropertyValueNotInList"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rf, m := newTestRedfish(RedfishOptions{})
			resp, d := do(t, rf, tt.method, tt.path, tt.body)
			if resp.StatusCode != tt.want {
				t.Errorf("got %s, want %d", resp.Status, tt.want)
			}
			e, _ := d["error"].(doc)
			info, _ := e["@Message.ExtendedInfo"].([]any)
			if e["code"] != registry+tt.id || len(info) != 1 || e["message"] == "" {
				t.Errorf("got error %v, want one of %s", d, tt.id)
			}
			if tt.want == 405 && resp.Header.Get("Allow") == "" {
				t.Error("no Allow header")
			}
			if m.Boot() != (bmc.Boot{}) || m.PowerState() != store.PowerOff {
				t.Error("the machine was changed")
			}
		})
	}
}

func TestRedfishAuthentication(t *testing.T) {
	rf, _ := newTestRedfish(RedfishOptions{})
	for _, tt := range []struct {
		path, user, password string
		want                 int
	}{
		{"/redfish/v1/", "", "", 200},
		{"/redfish", "", "", 200},
		{"/redfish/v1/SessionService", "", "", 200},
		{"/redfish/v1/SessionService/Sessions", "", "", 401},
		{"/redfish/v1/Systems", "", "", 401},
		{"/redfish/v1/Systems", "admin", "secret", 200},
		{"/redfish/v1/Systems/", "admin", "secret", 200},
		{"/redfish/v1/Systems", "admin", "Secret", 401},
		{"/redfish/v1/Systems", "root", "secret", 401},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", tt.path, nil)
		if tt.user != "" {
			r.SetBasicAuth(tt.user, tt.password)
		}
		w := httptest.NewRecorder()
		rf.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s as %q with %q: got %d, want %d", tt.path, tt.user, tt.password, w.Code, tt.want)
		}
	}
}

func TestRedfishSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rf, _ := newTestRedfish(RedfishOptions{MaxSessions: 2, SessionLife: time.Minute, NoBasic: true})
		login := func(password string) *http.Response {
			resp, _ := do(t, rf, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "admin", "Password": "`+password+`"}`)
			return resp
		}
		get := func(token string) int {
			resp, _ := do(t, rf, "GET", systemPath, "", "X-Auth-Token", token)
			return resp.StatusCode
		}
		if resp := login("wrong"); resp.StatusCode != 401 {
			t.Errorf("wrong password: got %s", resp.Status)
		}
		first, second := login("secret"), login("secret")
		token := first.Header.Get("X-Auth-Token")
		if first.StatusCode != 201 || token == "" || first.Header.Get("Location") == second.Header.Get("Location") {
			t.Fatalf("login: got %s, %v", first.Status, first.Header)
		}
		if resp := login("secret"); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("third login: got %s, want 503 with Retry-After", resp.Status)
		}
		if got := get(token); got != 200 {
			t.Errorf("with the token: got %d", got)
		}
		if got := get(token + "x"); got != 401 {
			t.Errorf("with another token: got %d", got)
		}
		if resp, _ := do(t, rf, "GET", systemPath, ""); resp.StatusCode != 401 {
			t.Errorf("basic authentication: got %s, want 401", resp.Status)
		}
		if resp, _ := do(t, rf, "DELETE", second.Header.Get("Location"), "", "X-Auth-Token", token); resp.StatusCode != 204 {
			t.Errorf("logout: got %s", resp.Status)
		}
		if got := get(second.Header.Get("X-Auth-Token")); got != 401 {
			t.Errorf("with the token of an ended session: got %d", got)
		}
		time.Sleep(50 * time.Second)
		if got := get(token); got != 200 {
			t.Errorf("session that was used: got %d", got)
		}
		time.Sleep(50 * time.Second)
		if got := get(token); got != 200 {
			t.Errorf("use does not prolong the session: got %d", got)
		}
		time.Sleep(61 * time.Second)
		if got := get(token); got != 401 {
			t.Errorf("unused session: got %d, want 401", got)
		}
		if n := rf.Sessions(); n != 0 {
			t.Errorf("%d sessions left", n)
		}
	})
}

func TestRedfishETag(t *testing.T) {
	rf, m := newTestRedfish(RedfishOptions{RequireETag: true})
	const once = `{"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}}`
	get, _ := do(t, rf, "GET", systemPath, "")
	tag := get.Header.Get("ETag")
	for _, tt := range []struct {
		name, ifMatch string
		want          int
	}{
		{"none", "", 428},
		{"wrong", `"0"`, 412},
		{"unquoted", strings.Trim(tag, `"`), 412},
		{"right", tag, 200},
		{"stale", tag, 412},
		{"any", "*", 200},
	} {
		var header []string
		if tt.ifMatch != "" {
			header = []string{"If-Match", tt.ifMatch}
		}
		if resp, _ := do(t, rf, "PATCH", systemPath, once, header...); resp.StatusCode != tt.want {
			t.Errorf("%s: got %s, want %d", tt.name, resp.Status, tt.want)
		}
	}
	if m.Boot().Device != bmc.PXE {
		t.Errorf("boot: got %v", m.Boot())
	}
}

// An override for one boot is used by one start; a permanent one by all.
func TestRedfishOverride(t *testing.T) {
	rf, m := newTestRedfish(RedfishOptions{})
	patch := func(boot string) {
		t.Helper()
		if resp, d := do(t, rf, "PATCH", systemPath, `{"Boot": `+boot+`}`); resp.StatusCode != 200 {
			t.Fatalf("%s: got %s: %v", boot, resp.Status, d)
		}
	}
	reset := func(kind string) {
		t.Helper()
		if resp, d := do(t, rf, "POST", systemPath+"/Actions/ComputerSystem.Reset", `{"ResetType": "`+kind+`"}`); resp.StatusCode != 204 {
			t.Fatalf("%s: got %s: %v", kind, resp.Status, d)
		}
	}
	patch(`{"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once", "BootSourceOverrideMode": "UEFI"}`)
	reset("On")
	reset("On") // is on: no start
	reset("ForceRestart")
	patch(`{"BootSourceOverrideTarget": "Hdd", "BootSourceOverrideEnabled": "Continuous", "BootSourceOverrideMode": "Legacy"}`)
	reset("PowerCycle")
	reset("ForceOff")
	reset("ForceOff")
	reset("On")
	patch(`{"BootSourceOverrideEnabled": "Disabled"}`)
	reset("GracefulRestart")
	want := []bmc.Boot{
		{Device: bmc.PXE, Mode: UEFI},
		{Mode: UEFI},
		{Device: bmc.Disk, Mode: BIOS, Persistent: true},
		{Device: bmc.Disk, Mode: BIOS, Persistent: true},
		{Mode: BIOS},
	}
	got := m.Starts()
	if len(got) != len(want) {
		t.Fatalf("got starts %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("start %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

// The boot mode attribute takes effect at the next start.
func TestRedfishBootMode(t *testing.T) {
	rf, m := newTestRedfish(RedfishOptions{})
	mode := func(path string) any {
		_, d := do(t, rf, "GET", path, "")
		return d["Attributes"].(doc)["BootMode"]
	}
	if resp, _ := do(t, rf, "PATCH", systemPath+"/Bios/Settings", `{"Attributes": {"BootMode": "Bios"}}`); resp.StatusCode != 200 {
		t.Fatalf("got %s", resp.Status)
	}
	if now, next := mode(systemPath+"/Bios"), mode(systemPath+"/Bios/Settings"); now != "Uefi" || next != "Bios" {
		t.Errorf("before the start: got %v and %v", now, next)
	}
	if err := m.Power(t.Context(), bmc.On); err != nil {
		t.Fatal(err)
	}
	if now := mode(systemPath + "/Bios"); now != "Bios" {
		t.Errorf("after the start: got %v", now)
	}
	only, _ := newTestRedfish(RedfishOptions{})
	only.machines = []Machine{NewMemory(Spec{Name: "node-1", Modes: []string{UEFI}}, 0)}
	if resp, _ := do(t, only, "PATCH", systemPath, `{"Boot": {"BootSourceOverrideMode": "Legacy"}}`); resp.StatusCode != 400 {
		t.Errorf("a mode that the machine lacks: got %s, want 400", resp.Status)
	}
}

func TestRedfishHead(t *testing.T) {
	rf, _ := newTestRedfish(RedfishOptions{})
	r := httptest.NewRequestWithContext(t.Context(), "HEAD", "/redfish/v1", nil)
	w := httptest.NewRecorder()
	rf.ServeHTTP(w, r)
	if w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("ETag") == "" || w.Header().Get("OData-Version") != "4.0" {
		t.Errorf("got %d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
}

// The transitions of a machine with a delay, and an override that is set while
// it is still starting.
func TestMemoryDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(testSpec(), time.Second)
		if err := m.Power(t.Context(), bmc.SoftOff); err == nil {
			t.Error("a machine that is off was shut down")
		}
		if err := m.Power(t.Context(), bmc.On); err != nil {
			t.Fatal(err)
		}
		if s := m.PowerState(); s != "" {
			t.Errorf("state while changing: got %q", s)
		}
		if err := m.SetBoot(bmc.Boot{Device: bmc.PXE}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1001 * time.Millisecond)
		if s := m.PowerState(); s != store.PowerOn {
			t.Errorf("state afterwards: got %q", s)
		}
		if got := m.Starts(); len(got) != 1 || got[0].Device != bmc.PXE || m.Boot().Device != "" {
			t.Errorf("got starts %v, override %v", got, m.Boot())
		}
		if err := m.SetBoot(bmc.Boot{Device: "gramophone"}); err == nil {
			t.Error("an unknown device was taken")
		}
	})
}
