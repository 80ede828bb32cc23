package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bessemer/server/auth"
	"bessemer/server/conductor"
	"bessemer/store"
)

func TestRuns(t *testing.T) {
	g := newRig(t, auth.None)
	a, b := g.node("a"), g.node("b")
	for i, n := range []string{a, b, a, a} {
		g.run(store.Run{ID: uint64(i + 1), Trace: store.NewTrace(), Workflow: "deploy", Node: n, Outcome: []store.Outcome{store.OK, store.Running}[i/3], Started: ago(time.Hour)})
	}
	ids := func(path string) string {
		var got struct{ Runs []store.Run }
		if err := json.Unmarshal([]byte(g.must(200, "", "GET", path, "").body), &got); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, r := range got.Runs {
			out = append(out, fmt.Sprint(r.ID))
		}
		return strings.Join(out, " ")
	}
	for path, want := range map[string]string{
		"/api/v1/runs":                       "4 3 2 1",
		"/api/v1/runs?node=a":                "4 3 1",
		"/api/v1/runs?node=" + b:             "2",
		"/api/v1/runs?limit=1&node=" + a:     "4",
		"/api/v1/runs?outcome=running":       "4",
		"/api/v1/runs?before=3":              "2 1",
		"/api/v1/runs?outcome=failed&node=a": "",
	} {
		if got := ids(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	for path, code := range map[string]int{
		"/api/v1/runs/4": 200, "/api/v1/runs/5": 404, "/api/v1/runs/x": 404, "/api/v1/runs/-1": 404,
		"/api/v1/runs?node=nosuch": 404, "/api/v1/runs?limit=-1": 400, "/api/v1/runs?color=red": 400,
	} {
		if r := g.ask("", "GET", path, ""); r.code != code || code >= 400 && r.fault() == "" {
			t.Errorf("%s: got %d %s", path, r.code, r.body)
		}
	}
}

// A run's trace has the client's calls that prepared it, not those that
// prepared the run before.
func TestTraceOfARun(t *testing.T) {
	g := newRig(t, auth.None)
	id := g.node("n1")
	patch := func() {
		g.must(200, "1.82", "PATCH", "/v1/nodes/n1", `[{"op":"add","path":"/instance_info/image_source","value":"http://h/i"}]`)
	}
	work := func(run uint64, trace string) {
		ctx := store.WithScope(t.Context(), store.Scope{Node: id, Run: run, Trace: trace})
		g.db.Record(ctx, store.Message{From: store.Conductor, To: store.BMC, Kind: store.Request, Label: store.LabelPowerOff})
	}
	patch()
	first := store.Run{ID: 1, Trace: store.NewTrace(), Workflow: "deploy", Node: id, Outcome: store.OK, Started: time.Now()}
	work(1, first.Trace)
	first.Ended = time.Now()
	g.run(first)
	patch()
	g.must(200, "1.82", "GET", "/v1/nodes/n1/validate", "")
	g.must(204, "1.82", "POST", "/v1/nodes/n1/vifs", `{"id":"v"}`)
	second := store.Run{ID: 2, Trace: store.NewTrace(), Workflow: "deploy", Node: id, Outcome: store.Running, Started: time.Now()}
	g.run(second)
	work(2, second.Trace)

	labels := func(path string) []string {
		var got struct {
			Run      *store.Run
			Messages []store.Message
		}
		if err := json.Unmarshal([]byte(g.must(200, "", "GET", path, "").body), &got); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, m := range got.Messages {
			if m.Kind == store.Request {
				out = append(out, fmt.Sprintf("%s -> %s: %s", m.From, m.To, m.Label))
			}
		}
		return out
	}
	want := []string{
		"Client -> API: Set instance_info", "Client -> API: Validate power and deploy interfaces",
		"Client -> API: Plug VIFs to the node", "Conductor -> BMC: POWER OFF",
	}
	for _, path := range []string{"/api/v1/traces/2", "/api/v1/traces/n1", "/api/v1/traces/" + second.Trace, "/api/v1/nodes/n1/trace"} {
		if d := cmp.Diff(want, labels(path)); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
	if d := cmp.Diff([]string{want[0], want[3]}, labels("/api/v1/traces/1")); d != "" {
		t.Errorf("first run (-want +got):\n%s", d)
	}
	for path, code := range map[string]int{
		"/api/v1/traces/2?format=mermaid": 200, "/api/v1/traces/2?format=seqdiag": 200, "/api/v1/traces/2?format=json": 200,
		"/api/v1/traces/2?format=nosuch": 406, "/api/v1/traces/" + strings.Repeat("0", 32): 404, "/api/v1/traces/nosuch": 404,
	} {
		r := g.ask("", "GET", path, "")
		if r.code != code {
			t.Errorf("%s: got %d %.200s", path, r.code, r.body)
		}
		if code == 200 && !strings.Contains(r.body, "POWER OFF") {
			t.Errorf("%s: %.300s", path, r.body)
		}
	}
}

// The arrows of a client's calls carry the caller's trace, if it has one, and
// say what came of them.
func TestArrows(t *testing.T) {
	g := newRig(t, auth.None)
	id := g.node("n1")
	const parent = "4bf92f3577b34da6a3ce929d0e0e4736"
	a := g.ask("1.82", "PUT", "/v1/nodes/n1/states/provision", `{"target":"provide"}`, "Traceparent", "00-"+parent+"-00f067aa0ba902b7-01")
	if a.code != 400 || !strings.Contains(a.header.Get("Traceparent"), parent) {
		t.Fatalf("got %d %v", a.code, a.header)
	}
	ms, err := g.db.TraceMessages(parent, 0, 0, nil)
	if err != nil || len(ms) != 2 {
		t.Fatalf("%d messages, %v", len(ms), err)
	}
	if ms[0].Label != store.LabelSetProvisionState || ms[0].Node != id || ms[0].Run != 0 || ms[0].Wire.Path != "/v1/nodes/n1/states/provision" {
		t.Errorf("request %+v", ms[0])
	}
	if ms[1].Kind != store.Reply || ms[1].ReplyTo != ms[0].Seq || ms[1].Outcome != store.Failed || ms[1].Wire.Status != 400 || ms[1].Error == "" {
		t.Errorf("reply %+v", ms[1])
	}
	g.ask("1.82", "PUT", "/v1/nodes/n1/states/power", `{"target":"power on"}`, "Traceparent", "garbage")
	ms, _ = g.db.LastNodeMessages(id, 1)
	if ms[0].Outcome != store.OK || ms[0].Wire.Status != 202 || len(ms[0].Trace) != 32 || ms[0].Trace == parent {
		t.Errorf("reply %+v", ms[0])
	}
	before := g.db.LastMessage()
	g.ask("1.82", "GET", "/v1/nodes/n1", "")
	g.ask("1.82", "PUT", "/v1/nodes/nosuch/states/power", `{"target":"power on"}`)
	if g.db.LastMessage() != before {
		t.Error("reading, or a node that is not, left arrows")
	}
}

func TestRamdiskArrows(t *testing.T) {
	g := newRig(t, auth.None)
	id := g.node("n1")
	g.must(201, "1.82", "POST", "/v1/ports", `{"address":"aa:bb:cc:00:00:01","node_uuid":"`+id+`"}`)
	trace := store.NewTrace()
	g.run(store.Run{ID: 7, Trace: trace, Workflow: "deploy", Node: id, Step: "await-agent", Outcome: store.Running, Started: time.Now()})
	g.set(id, func(n *store.Node) { n.ProvisionState, n.Run = store.DeployWait, 7 })

	r := g.ramdisk("1.68", "GET", "/v1/lookup?addresses=AA-BB-CC-00-00-01,junk,aa:bb:cc:00:00:01", "")
	var got struct {
		Node   struct{ UUID string }
		Config struct {
			Token string `json:"agent_token"`
		}
	}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.code != 200 || got.Node.UUID != id || len(got.Config.Token) < 32 {
		t.Fatalf("lookup: %d %s", r.code, r.body)
	}
	hb := g.ramdisk("1.68", "POST", "/v1/heartbeat/"+id, `{"callback_url":"https://192.0.2.2:9999","agent_token":"`+got.Config.Token+`","agent_version":"1","unknown_to_us":1}`)
	if hb.code != 202 || hb.body != "" {
		t.Errorf("heartbeat: %d %s", hb.code, hb.body)
	}
	if r := g.ramdisk("1.61", "GET", "/v1/lookup?addresses=aa:bb:cc:00:00:01", ""); !strings.Contains(r.body, `"agent_token":"******"`) {
		t.Errorf("a second lookup: %s", r.body)
	}
	g.ramdisk("1.68", "GET", "/v1/lookup?addresses=00:00:00:00:00:09", "") // a stranger leaves no arrow
	ms, err := g.db.NodeMessages(id, 0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	var arrows []string
	for _, m := range ms {
		arrows = append(arrows, fmt.Sprintf("%s->%s %s %s", m.From, m.To, m.Kind, m.Label))
		if m.Run != 7 || m.Trace != trace || m.Step != "await-agent" {
			t.Errorf("not the run's: %+v", m)
		}
	}
	want := []string{
		"Node->Node self Runs agent ramdisk",
		"Node->API request lookup()", "API->Node reply Pass UUID", "Node->API request Heartbeat", "API->Node reply Heartbeat",
		"Node->API request lookup()", "API->Node reply Pass UUID",
	}
	if d := cmp.Diff(want, arrows); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if strings.Contains(fmt.Sprintf("%+v", ms), got.Config.Token) {
		t.Error("a message has the token")
	}
}

func TestImages(t *testing.T) {
	g := newRig(t, auth.None)
	var img store.Image
	up := g.must(201, "", "PUT", "/api/v1/images/tiny", "bytes")
	if err := json.Unmarshal([]byte(up.body), &img); err != nil || img.Size != 5 || img.Name != "tiny" {
		t.Fatalf("%s, %v", up.body, err)
	}
	added := g.must(201, "", "POST", "/api/v1/images", `{"name":"web","source":"http://u:pw@h/i.qcow2"}`)
	if strings.Contains(added.body, "pw@") {
		t.Errorf("the source's password is shown: %s", added.body)
	}
	for _, tt := range []struct {
		method, path, body string
		code               int
	}{
		{"GET", "/api/v1/images/tiny", "", 200},
		{"GET", "/api/v1/images/" + img.UUID, "", 200},
		{"GET", "/api/v1/images/nosuch", "", 404},
		{"PUT", "/api/v1/images/tiny", "again", 409},
		{"PUT", "/api/v1/images/empty", "", 400},
		{"PUT", "/api/v1/images/..%2f..%2fx", "x", 404},
		{"PUT", "/api/v1/images/" + img.UUID, "x", 400},
		{"POST", "/api/v1/images", `{"name":"f","source":"file:///etc/shadow"}`, 400},
		{"POST", "/api/v1/images", `{"name":"f","source":"/etc/shadow"}`, 400},
		{"POST", "/api/v1/images", `{"name":"f","source":"http://127.0.0.1/x"}`, 400},
		{"POST", "/api/v1/images", `{"name":"","source":"http://h/x"}`, 400},
		{"DELETE", "/api/v1/images/tiny", "", 204},
		{"DELETE", "/api/v1/images/tiny", "", 404},
	} {
		a := g.ask("", tt.method, tt.path, tt.body)
		if a.code != tt.code || tt.code >= 400 && a.fault() == "" {
			t.Errorf("%s %s %s: got %d %s, want %d", tt.method, tt.path, tt.body, a.code, a.body, tt.code)
		}
	}
	if a := g.must(200, "", "GET", "/api/v1/images", ""); strings.Count(a.body, `"uuid"`) != 1 || strings.Contains(a.body, "pw@") {
		t.Errorf("list: %s", a.body)
	}
	// A body beyond the limit of JSON bodies is no problem for an upload.
	g.must(201, "", "PUT", "/api/v1/images/large", strings.Repeat("x", 5<<20))
}

func TestLoginAndUsers(t *testing.T) {
	g := newRig(t, auth.Basic)
	post := func(body string) answer {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", g.url+"/api/v1/tokens", strings.NewReader(body))
		return g.send(req)
	}
	a := post(`{"user":"reader","password":"` + readerPassword + `"}`)
	token, _ := a.object()["token"].(string)
	if a.code != 201 || len(token) < 32 || a.object()["role"] != "reader" {
		t.Fatalf("login: %d %s", a.code, a.body)
	}
	with := func(method, path, body string) answer {
		req, _ := http.NewRequestWithContext(t.Context(), method, g.url+path, strings.NewReader(body))
		req.Header.Set("X-Auth-Token", token)
		return g.send(req)
	}
	if r := with("GET", "/api/v1/status", ""); r.code != 200 || r.object()["user"] != "reader" {
		t.Errorf("status with a token: %d %s", r.code, r.body)
	}
	wrong, unknown := post(`{"user":"reader","password":"wrong"}`), post(`{"user":"nobody","password":"wrong"}`)
	if wrong.code != 401 || wrong.body != unknown.body {
		t.Errorf("wrong password %d %s, unknown user %d %s", wrong.code, wrong.body, unknown.code, unknown.body)
	}
	if r := post(`{"user":"reader","password":"` + strings.Repeat("x", 1<<20) + `"}`); r.code != 413 {
		t.Errorf("a password of a megabyte: %d", r.code)
	}
	if r := post(`{}`); r.code != 401 {
		t.Errorf("an empty login: %d %s", r.code, r.body)
	}
	if r := with("GET", "/api/v1/users", ""); r.code != 403 {
		t.Errorf("users as reader: %d", r.code)
	}
	if r := with("DELETE", "/api/v1/tokens", ""); r.code != 204 {
		t.Errorf("logout: %d %s", r.code, r.body)
	}
	if r := with("GET", "/api/v1/status", ""); r.code != 401 {
		t.Errorf("after logout: %d", r.code)
	}

	for _, tt := range []struct {
		method, path, body string
		code               int
	}{
		{"POST", "/api/v1/users", `{"name":"bob","password":"bob's password","role":"reader"}`, 201},
		{"POST", "/api/v1/users", `{"name":"bob","password":"bob's password","role":"reader"}`, 409},
		{"POST", "/api/v1/users", `{"name":"eve","password":"short","role":"reader"}`, 400},
		{"POST", "/api/v1/users", `{"name":"eve","password":"long enough","role":"king"}`, 400},
		{"PATCH", "/api/v1/users/bob", `{"role":"admin"}`, 200},
		{"PATCH", "/api/v1/users/bob", `{"name":"rob"}`, 400},
		{"PATCH", "/api/v1/users/nobody", `{"role":"admin"}`, 404},
		{"GET", "/api/v1/users/bob", "", 200},
		{"DELETE", "/api/v1/users/bob", "", 204},
		{"DELETE", "/api/v1/users/bob", "", 404},
		{"DELETE", "/api/v1/users/admin", "", 409},
		{"DELETE", "/api/v1/tokens", "", 400},
	} {
		a := g.ask("", tt.method, tt.path, tt.body)
		if a.code != tt.code {
			t.Errorf("%s %s %s: got %d %s, want %d", tt.method, tt.path, tt.body, a.code, a.body, tt.code)
		}
		if strings.Contains(a.body, "$2a$") {
			t.Errorf("%s %s shows a hash", tt.method, tt.path)
		}
	}
	if a := g.must(200, "", "GET", "/api/v1/users", ""); strings.Contains(a.body, "$2") || !strings.Contains(a.body, `"reader"`) {
		t.Errorf("users: %s", a.body)
	}
}

func TestNetworkAndRest(t *testing.T) {
	g := newRig(t, auth.None)
	err := g.db.Update(func(tx *store.Tx) error {
		for _, mac := range []string{"aa:bb:cc:00:00:01", "aa:bb:cc:00:00:02"} {
			if err := store.DiscoveredMachines.Put(tx, &store.Discovered{MAC: mac, Count: 3}); err != nil {
				return err
			}
		}
		return store.Leases.Put(tx, &store.Lease{IP: "192.0.2.5", MAC: "aa:bb:cc:00:00:01", State: "bound"})
	})
	if err != nil {
		t.Fatal(err)
	}
	id := g.node("n1")
	g.must(201, "1.82", "POST", "/v1/ports", `{"address":"aa:bb:cc:00:00:01","node_uuid":"`+id+`"}`)
	if a := g.must(200, "", "GET", "/api/v1/discovered", ""); strings.Contains(a.body, ":01") || !strings.Contains(a.body, ":02") {
		t.Errorf("a machine with a port is still discovered: %s", a.body)
	}
	g.must(204, "", "DELETE", "/api/v1/discovered/AA:BB:CC:00:00:02", "")
	g.must(404, "", "DELETE", "/api/v1/discovered/aa:bb:cc:00:00:02", "")
	g.must(400, "", "DELETE", "/api/v1/discovered/x", "")
	if a := g.must(200, "", "GET", "/api/v1/leases", ""); !strings.Contains(a.body, "192.0.2.5") {
		t.Errorf("leases: %s", a.body)
	}
	if a := g.must(200, "", "GET", "/api/v1/check", ""); a.object()["ok"] != true {
		t.Errorf("check: %s", a.body)
	}
	if a := g.must(200, "", "GET", "/api/v1/backup", ""); !strings.HasPrefix(a.body, "bessemer backup") || !strings.Contains(a.header.Get("Content-Disposition"), ".backup") {
		t.Errorf("backup: %.40q %v", a.body, a.header)
	}
	if a := g.must(200, "", "GET", "/api/v1/nodes/n1/explain", ""); a.object()["doing"] != "Nothing." {
		t.Errorf("explain: %s", a.body)
	}
	g.must(404, "", "GET", "/api/v1/nodes/nosuch/explain", "")
	if a := g.must(404, "", "GET", "/api/v1/nosuch", ""); a.object()["error"] == nil {
		t.Errorf("a path that is not: %s", a.body)
	}
	m := g.must(200, "", "GET", "/metrics", "")
	for _, want := range []string{
		`bessemer_nodes{provision_state="enroll"} 1`, `bessemer_http_requests_total{method="POST",route="/v1/nodes",code="201"} 1`,
		`bessemer_http_request_seconds_count{method="POST",route="/v1/nodes"} 1`, "bessemer_ports 1\n",
	} {
		if !strings.Contains(m.body, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	g.must(200, "", "GET", "/healthz", "")
	g.must(200, "", "GET", "/readyz", "")
	g.api.Ready = func() []string { return []string{"no ramdisk"} }
	if a := g.must(503, "", "GET", "/readyz", ""); strings.Contains(a.body, "ramdisk") {
		t.Errorf("readyz tells strangers what is missing: %s", a.body)
	}
	if a := g.must(200, "", "GET", "/api/v1/status", ""); !strings.Contains(a.body, "no ramdisk") {
		t.Errorf("status: %s", a.body)
	}
}

// Each kind of refusal of the conductor has its status, and its words without
// the kind's.
func TestConductorsRefusals(t *testing.T) {
	g := newRig(t, auth.None)
	g.node("n1")
	for err, code := range map[error]int{
		conductor.ErrInvalid: 400, conductor.ErrState: 400, conductor.ErrForbidden: 403, conductor.ErrNotFound: 404,
		conductor.ErrLocked: 409, conductor.ErrBusy: 503, store.ErrNotFound: 404,
	} {
		g.fake.fail = fmt.Errorf("%w: the reason\nand more", err)
		a := g.ask("1.82", "PUT", "/v1/nodes/n1/states/power", `{"target":"power on"}`)
		if a.code != code || a.fault() != "The reason; and more" {
			t.Errorf("%v: got %d %q", err, a.code, a.fault())
		}
		if (a.header.Get("Retry-After") != "") != (code == 503) {
			t.Errorf("%v: Retry-After %q", err, a.header.Get("Retry-After"))
		}
	}
}
