package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bessemer/bmc"
)

const (
	testUser     = "root"
	testPassword = "canary-0815"
	systemPath   = "/redfish/v1/Systems/1"
)

// A fakeBMC is a small Redfish service with one machine. Its quirks are
// switched on by the identifiers of the list of quirks.
type fakeBMC struct {
	*httptest.Server
	quirks map[string]bool
	// answer, if set, may answer a request instead of the service.
	answer func(w http.ResponseWriter, r *http.Request) bool
	noted  bmc.Sessions // where drivers note their sessions; nil: nowhere

	mu       sync.Mutex
	power    string
	boot     map[string]any
	pending  map[string]any // of the settings resource
	version  int
	tokens   map[string]bool
	made     int      // sessions ever made
	room     int      // for so many sessions, 0: for all
	requests []string // "GET /path"
	bodies   []string // of writes, without those to Sessions
	headers  []http.Header
	failures int // how many requests are yet to fail with 503
}

func newFakeBMC(t *testing.T, quirks ...string) *fakeBMC {
	b := &fakeBMC{
		quirks: map[string]bool{}, power: "Off", tokens: map[string]bool{},
		boot: map[string]any{
			"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI",
			"BootSourceOverrideTarget@Redfish.AllowableValues": []string{"None", "Pxe", "Hdd", "Cd", "BiosSetup", "UefiHttp"},
		},
		pending: map[string]any{},
	}
	for _, q := range quirks {
		b.quirks[q] = true
	}
	if b.quirks["B-05"] {
		delete(b.boot, "BootSourceOverrideMode")
	}
	b.Server = httptest.NewUnstartedServer(b)
	b.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, connUses{}, new(int))
	}
	if b.quirks["plain"] {
		b.Start()
	} else {
		b.StartTLS()
	}
	t.Cleanup(b.Server.Close)
	return b
}

// connUses is where a connection counts its requests.
type connUses struct{}

// open returns a driver for the machine, quick to repeat.
func (b *fakeBMC) open(t *testing.T, changes ...string) *driver {
	t.Helper()
	info := map[string]any{
		"redfish_address": b.URL, "redfish_username": testUser, "redfish_password": testPassword, "redfish_verify_ca": false,
	}
	for i := 0; i < len(changes); i += 2 {
		info[changes[i]] = changes[i+1]
	}
	s, err := readSettings(bmc.Target{DriverInfo: info, ConnectTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s.sessions = b.noted
	s.retryGap, s.retryFor, s.requestTimeout = time.Millisecond, 5*time.Second, 5*time.Second
	d := newDriver(s)
	t.Cleanup(func() { d.Close() })
	return d
}

func (b *fakeBMC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	uses := r.Context().Value(connUses{}).(*int)
	if *uses++; *uses > 1 && b.quirks["R-07"] {
		panic(http.ErrAbortHandler)
	}
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.requests = append(b.requests, r.Method+" "+r.URL.Path)
	b.headers = append(b.headers, r.Header.Clone())
	if r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "/Sessions") {
		b.bodies = append(b.bodies, string(body))
	}
	answer := b.answer
	b.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures > 0 {
		b.failures--
		w.Header().Set("Retry-After", "0")
		fail(w, http.StatusServiceUnavailable, "SYS518", "iDRAC is not ready")
		return
	}
	if b.quirks["R-08"] && r.Header.Get("Accept-Encoding") != "" {
		fail(w, http.StatusNotAcceptable, "", "encoding")
		return
	}
	b.route(w, r, body)
}

func (b *fakeBMC) route(w http.ResponseWriter, r *http.Request, body []byte) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	key := r.Method + " " + path
	if key == "GET /redfish/v1" {
		reply(w, b.rootDoc())
		return
	}
	if key == "POST /redfish/v1/SessionService/Sessions" && !b.quirks["no sessions"] {
		b.newSession(w, body)
		return
	}
	if !b.authorized(r) {
		fail(w, http.StatusUnauthorized, "Base.1.0.NoValidSession", "there is no valid session")
		return
	}
	switch {
	case strings.HasPrefix(key, "GET /redfish/v1/SessionService/Sessions/"):
		b.session(w, strings.TrimPrefix(path, "/redfish/v1/SessionService/Sessions/"))
	case r.Method == http.MethodDelete:
		delete(b.tokens, strings.TrimPrefix(path, "/redfish/v1/SessionService/Sessions/"))
		w.WriteHeader(http.StatusNoContent)
	case key == "GET /redfish/v1/Systems":
		b.systems(w)
	case key == "GET "+systemPath:
		b.tag(w)
		reply(w, b.systemDoc())
	case key == "GET "+systemPath+"/SD" && b.hasSettings():
		b.tag(w)
		reply(w, map[string]any{"@odata.id": systemPath + "/SD", "@odata.etag": b.bodyTag(), "Boot": b.pending})
	case key == "PATCH "+systemPath, key == "PATCH "+systemPath+"/SD" && b.hasSettings():
		b.patch(w, r, body)
	case key == "POST "+systemPath+"/Actions/ComputerSystem.Reset":
		b.reset(w, r, body)
	case key == "GET "+systemPath+"/ResetActionInfo":
		reply(w, map[string]any{"Parameters": []any{map[string]any{"Name": "ResetType", "AllowableValues": []string{"On", "ForceOff", "PushPowerButton", "PowerCycle"}}}})
	case key == "GET /redfish/v1/Managers":
		reply(w, members("/redfish/v1/Managers/bmc"))
	case key == "GET /redfish/v1/Managers/bmc":
		reply(w, map[string]any{"FirmwareVersion": "2.75"})
	case key == "GET "+systemPath+"/EthernetInterfaces":
		reply(w, members(systemPath+"/EthernetInterfaces/1", systemPath+"/EthernetInterfaces/2", systemPath+"/EthernetInterfaces/3", systemPath+"/EthernetInterfaces/4"))
	case strings.HasPrefix(key, "GET "+systemPath+"/EthernetInterfaces/"):
		b.nic(w, path[len(path)-1:])
	default:
		http.NotFound(w, r)
	}
}

func (b *fakeBMC) rootDoc() map[string]any {
	doc := map[string]any{
		"@odata.id": "/redfish/v1/", "Id": "RootService", "RedfishVersion": "1.6.0", "Vendor": "Fake",
		"Systems": ref("/redfish/v1/Systems"), "Managers": ref("/redfish/v1/Managers"),
	}
	if b.quirks["dell"] {
		doc["Vendor"] = "Dell"
	}
	if !b.quirks["no sessions"] {
		doc["Links"] = map[string]any{"Sessions": ref("/redfish/v1/SessionService/Sessions")}
	}
	if b.quirks["R-09 no link"] {
		delete(doc, "Links")
		doc["SessionService"] = ref("/redfish/v1/SessionService")
	}
	return doc
}

func (b *fakeBMC) hasSettings() bool { return b.quirks["B-06"] || b.quirks["B-06 empty"] }

func (b *fakeBMC) systems(w http.ResponseWriter) {
	if b.quirks["R-28"] {
		reply(w, members(systemPath, "/redfish/v1/Systems/2"))
		return
	}
	b.quirks["B-18"] = false
	reply(w, members(systemPath))
}

func (b *fakeBMC) systemDoc() map[string]any {
	doc := map[string]any{
		"@odata.id": systemPath, "@odata.etag": b.bodyTag(), "Id": "1", "UUID": "16B7275A-4A72-508C-8000-000000000001",
		"Manufacturer": "Fake", "Model": "R1", "SerialNumber": 4711, "SKU": "TAG1", "PowerState": b.power, "Boot": b.boot,
		"Actions":            map[string]any{"#ComputerSystem.Reset": map[string]any{"target": systemPath + "/Actions/ComputerSystem.Reset"}},
		"EthernetInterfaces": ref(systemPath + "/EthernetInterfaces"),
	}
	if b.quirks["B-10"] {
		doc["Actions"] = map[string]any{"#ComputerSystem.Reset": map[string]any{
			"target": systemPath + "/Actions/ComputerSystem.Reset", "@Redfish.ActionInfo": systemPath + "/ResetActionInfo",
		}}
	}
	if b.hasSettings() {
		doc["@Redfish.Settings"] = map[string]any{"SettingsObject": ref(systemPath + "/SD")}
		doc["Boot"] = b.boot
		if b.quirks["B-06"] {
			b.pending["BootSourceOverrideTarget"] = cmp.Or(b.pending["BootSourceOverrideTarget"], any("None"))
		}
	}
	return doc
}

func (b *fakeBMC) nic(w http.ResponseWriter, n string) {
	switch n {
	case "1":
		reply(w, map[string]any{"MACAddress": "52-54-00-AA-00-01"})
	case "2":
		reply(w, map[string]any{"MACAddress": "", "PermanentMACAddress": nil})
	case "3":
		reply(w, map[string]any{"MACAddress": "02:00:00:00:00:09", "PermanentMACAddress": "5254.00AA.0003"})
	default:
		fail(w, http.StatusBadRequest, "", "no such adapter")
	}
}

// headerTag and bodyTag are the versions that the service shows, wantTag the
// one it wants.
func (b *fakeBMC) headerTag() string {
	switch {
	case b.quirks["R-03"]:
		return fmt.Sprintf(`W/"v%d-gzip"`, b.version)
	case b.quirks["R-04 body"]:
		return fmt.Sprintf(`""v%d""`, b.version)
	}
	return fmt.Sprintf(`"v%d"`, b.version)
}

func (b *fakeBMC) bodyTag() string { return fmt.Sprintf(`W/"v%d"`, b.version) }

func (b *fakeBMC) wantTag() string {
	switch {
	case b.quirks["R-03"], b.quirks["R-04 body"]:
		return b.bodyTag()
	case b.quirks["R-04 bare"]:
		return fmt.Sprintf("v%d", b.version)
	}
	return b.headerTag()
}

func (b *fakeBMC) tag(w http.ResponseWriter) {
	if !b.quirks["R-01 no tag"] {
		w.Header().Set("ETag", b.headerTag())
	}
}

func (b *fakeBMC) matches(w http.ResponseWriter, r *http.Request) bool {
	got := r.Header.Get("If-Match")
	switch {
	case b.quirks["R-02"]:
		if got != "" {
			fail(w, http.StatusPreconditionFailed, "", "mismatch")
		}
		return got == ""
	case got == "" && b.quirks["R-01"]:
		fail(w, http.StatusPreconditionRequired, "", "If-Match wanted")
		return false
	case got == "" && b.quirks["R-01 429"]:
		fail(w, http.StatusTooManyRequests, "", "")
		return false
	case got != "" && got != b.wantTag():
		fail(w, http.StatusPreconditionFailed, "", "mismatch")
		return false
	}
	return true
}

func (b *fakeBMC) patch(w http.ResponseWriter, r *http.Request, body []byte) {
	var in struct{ Boot map[string]any }
	if err := json.Unmarshal(body, &in); err != nil {
		fail(w, http.StatusBadRequest, "Base.1.0.MalformedJSON", "malformed")
		return
	}
	settings := strings.HasSuffix(r.URL.Path, "/SD")
	_, mode := in.Boot["BootSourceOverrideMode"]
	switch {
	case !b.matches(w, r):
		return
	case b.quirks["B-06"] && !settings, b.quirks["B-06 empty"] && settings:
		fail(w, http.StatusBadRequest, "Base.1.0.PropertyNotWritable", "read-only")
		return
	case b.quirks["B-04"] && in.Boot["BootSourceOverrideEnabled"] == "Continuous",
		b.quirks["B-05"] && mode,
		b.quirks["B-07"] && in.Boot["BootSourceOverrideTarget"] == "None",
		!b.quirks["B-05"] && len(in.Boot) != 3 && in.Boot["BootOrder"] == nil: // B-03
		fail(w, http.StatusBadRequest, "Base.1.0.PropertyValueNotInList", "refused")
		return
	}
	to := b.boot
	if settings {
		to = b.pending
	}
	for k, v := range in.Boot {
		to[k] = v
	}
	b.version++
	w.WriteHeader(http.StatusNoContent)
}

func (b *fakeBMC) reset(w http.ResponseWriter, r *http.Request, body []byte) {
	var in struct{ ResetType string }
	_ = json.Unmarshal(body, &in)
	if r.Header.Get("If-Match") != "" {
		fail(w, http.StatusPreconditionFailed, "", "If-Match on an action")
		return
	}
	if b.quirks["B-10"] && !slices.Contains([]string{"On", "ForceOff", "PushPowerButton", "PowerCycle"}, in.ResetType) {
		fail(w, http.StatusBadRequest, "Base.1.0.ActionParameterNotSupported", "not allowed")
		return
	}
	want := map[string]string{
		"On": "On", "ForceOff": "Off", "GracefulShutdown": "Off", "ForceRestart": "On", "PowerCycle": "On",
		"PushPowerButton": map[string]string{"On": "Off", "Off": "On"}[b.power],
	}[in.ResetType]
	b.power = want
	if b.quirks["B-09"] {
		fail(w, http.StatusConflict, "", "already so, or will be")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func ref(path string) map[string]any { return map[string]any{"@odata.id": path} }

func members(paths ...string) map[string]any {
	ms := []any{}
	for _, p := range paths {
		ms = append(ms, ref(p))
	}
	return map[string]any{"Members": ms, "Members@odata.count": len(ms)}
}

func reply(w http.ResponseWriter, doc any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(doc)
}

func fail(w http.ResponseWriter, status int, id, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"code": id, "message": message, "@Message.ExtendedInfo": []any{map[string]any{"MessageId": id, "Message": message}},
	}})
}

// count returns how many requests had the given form.
func (b *fakeBMC) count(request string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, r := range b.requests {
		if r == request {
			n++
		}
	}
	return n
}
