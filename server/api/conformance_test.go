package api

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bessemer/store"
)

// TestLikeIronic replays what Ironic 21.4.4 was seen to answer to the requests
// of a session of its own command line: status, Location and the keys of each
// JSON object, as far as the endpoints are here.
func TestLikeIronic(t *testing.T) {
	raw, err := os.ReadFile("testdata/ironic-21.4.4.json")
	if err != nil {
		t.Fatal(err)
	}
	var seen struct {
		Version string
		Sets    map[string][]string
		Calls   []struct {
			Method, Path, Location string
			Body                   json.RawMessage
			Status                 int
			Keys                   []string
			ItemKeys               []string `json:"item_keys"`
		}
	}
	if err := json.Unmarshal(raw, &seen); err != nil {
		t.Fatal(err)
	}
	g := newRig(t, "none")
	ids := []string{"{vif}", "1974dcfa-836f-41b2-b541-686c100900e5", "{node}", "", "{port}", ""}
	keysOf := func(names []string) []string {
		if len(names) == 1 && strings.HasPrefix(names[0], "@") {
			return seen.Sets[names[0][1:]]
		}
		return names
	}
	for i, s := range seen.Calls {
		real := strings.NewReplacer(ids...)
		a := g.ask(seen.Version, s.Method, real.Replace(s.Path), real.Replace(string(s.Body)))
		if a.code != s.Status {
			t.Fatalf("call %d: %s %s %s: got %d %s, want %d", i, s.Method, s.Path, s.Body, a.code, a.body, s.Status)
		}
		obj := a.object()
		if s.Method == "POST" && a.code == 201 {
			id := obj["uuid"].(string)
			ids[map[string]int{"/v1/nodes": 3, "/v1/ports": 5}[s.Path]] = id
			s.Location += id
			s.Location = strings.NewReplacer("{node}", "", "{port}", "").Replace(s.Location)
		}
		if got := strings.TrimPrefix(a.header.Get("Location"), g.url); got != real.Replace(s.Location) {
			t.Errorf("call %d: %s %s: Location %q, want %q", i, s.Method, s.Path, got, s.Location)
		}
		if d := cmp.Diff(keysOf(s.Keys), slices.Sorted(maps.Keys(obj))); s.Keys != nil && d != "" {
			t.Errorf("call %d: %s %s: keys (-Ironic +ours):\n%s", i, s.Method, s.Path, d)
		}
		for _, v := range obj {
			list, _ := v.([]any)
			if s.ItemKeys == nil || len(list) == 0 {
				continue
			}
			if d := cmp.Diff(keysOf(s.ItemKeys), slices.Sorted(maps.Keys(list[0].(map[string]any)))); d != "" {
				t.Errorf("call %d: %s %s: keys of an item (-Ironic +ours):\n%s", i, s.Method, s.Path, d)
			}
		}
		if a.code >= 400 && a.fault() == "" {
			t.Errorf("call %d: no fault in %s", i, a.body)
		}
		if (a.code == 202 || a.code == 204) && (a.body != "" || a.header.Get("Content-Type") != "") {
			t.Errorf("call %d: a %d has a body or content type: %q", i, a.code, a.body)
		}
		if got := a.header.Get(versionHeader); got != seen.Version {
			t.Errorf("call %d: version header %q", i, got)
		}
	}
}

// TestEnforcement is the part of Ironic's own test of the version gates that
// endpoints here exist for: the lowest version of each, and the answer below.
func TestEnforcement(t *testing.T) {
	const notFound, notAllowed, unacceptable = 404, 405, 406
	g := newRig(t, "none")
	id := g.node("n1")
	p := g.must(201, "1.82", "POST", "/v1/ports", `{"address":"aa:bb:cc:00:00:01","node_uuid":"`+id+`"}`).object()["uuid"].(string)
	node := "/v1/nodes/" + id
	tests := []struct {
		method, path, body string
		lowest             version
		below              int
	}{
		{"POST", "/v1/nodes", `{"driver":"fake-hardware"}`, 1, unacceptable},
		{"GET", "/v1/nodes", "", 1, unacceptable},
		{"GET", "/v1/nodes/detail", "", 1, unacceptable},
		{"GET", node, "", 1, unacceptable},
		{"PATCH", node, `[{"op":"add","path":"/extra/a","value":1}]`, 1, unacceptable},
		{"GET", node + "/validate", "", 1, unacceptable},
		{"PUT", node + "/states/power", `{"target":"power on"}`, 1, unacceptable},
		{"PUT", node + "/states/provision", `{"target":"deleted"}`, 1, unacceptable},
		{"PUT", node + "/management/boot_device", `{"boot_device":"pxe"}`, 1, unacceptable},
		{"GET", node + "/management/boot_device", "", 1, unacceptable},
		{"GET", node + "/management/boot_device/supported", "", 1, unacceptable},
		{"GET", node + "/vendor_passthru/methods", "", 1, unacceptable},
		{"PUT", node + "/vendor_passthru?method=x", "{}", 1, unacceptable},
		{"GET", node + "/traits", "", 37, notFound},
		{"PUT", node + "/traits", `{"traits":["CUSTOM_A"]}`, 37, notAllowed},
		{"PUT", node + "/traits/CUSTOM_A", "", 37, notAllowed},
		{"DELETE", node + "/traits/CUSTOM_A", "", 37, notFound},
		{"DELETE", node + "/traits", "", 37, notFound},
		{"GET", node + "/vifs", "", 28, notFound},
		{"POST", node + "/vifs", `{"id":"v1"}`, 28, notFound},
		{"DELETE", node + "/vifs/v1", "", 28, notFound},
		{"GET", "/v1/ports", "", 1, unacceptable},
		{"GET", "/v1/ports/detail", "", 1, unacceptable},
		{"POST", "/v1/ports", `{"address":"aa:bb:cc:00:00:02","node_uuid":"` + id + `"}`, 1, unacceptable},
		{"GET", "/v1/ports/" + p, "", 1, unacceptable},
		{"PATCH", "/v1/ports/" + p, `[{"op":"add","path":"/extra/a","value":1}]`, 1, unacceptable},
		{"GET", node + "/ports", "", 1, unacceptable},
		{"GET", node + "/ports/detail", "", 1, unacceptable},
		{"DELETE", "/v1/ports/" + p, "", 1, unacceptable},
		{"GET", "/v1/drivers", "", 1, unacceptable},
		{"GET", "/v1/drivers/fake-hardware", "", 1, unacceptable},
		{"GET", "/v1/drivers/fake-hardware/properties", "", 1, unacceptable},
		{"GET", "/v1/drivers/fake-hardware/raid/logical_disk_properties", "", 12, unacceptable},
		{"GET", "/v1/drivers/fake-hardware/vendor_passthru/methods", "", 1, unacceptable},
		{"GET", "/v1/conductors", "", 49, notFound},
		{"GET", "/v1/conductors/refhost", "", 49, notFound},
		{"GET", "/v1/nodes?shard=a", "", 82, unacceptable},
		{"GET", "/v1/nodes?provision_state=enroll", "", 9, unacceptable},
		{"GET", "/v1/nodes?driver=x", "", 16, unacceptable},
		{"GET", "/v1/nodes?resource_class=x", "", 21, unacceptable},
		{"GET", "/v1/nodes?fault=none", "", 42, unacceptable},
		{"GET", "/v1/nodes?conductor_group=x", "", 46, unacceptable},
		{"GET", "/v1/nodes?conductor=x", "", 49, unacceptable},
		{"GET", "/v1/nodes?owner=x", "", 50, unacceptable},
		{"GET", "/v1/nodes?description_contains=x", "", 51, unacceptable},
		{"GET", "/v1/nodes?retired=true", "", 61, unacceptable},
		{"GET", "/v1/nodes?lessee=x", "", 65, unacceptable},
		{"GET", "/v1/nodes?fields=uuid", "", 8, unacceptable},
		{"GET", "/v1/drivers?fields=name", "", 77, unacceptable},
		{"GET", "/v1/drivers?type=dynamic", "", 30, unacceptable},
		{"PATCH", node + "?reset_interfaces=true", `[{"op":"replace","path":"/driver","value":"fake-hardware"}]`, 45, unacceptable},
		{"PUT", node + "/states/power", `{"target":"soft rebooting"}`, 27, unacceptable},
		{"DELETE", node, "", 1, unacceptable},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+strings.Replace(tt.path, id, "N", 1), func(t *testing.T) {
			if a := g.ask((tt.lowest - 1).String(), tt.method, tt.path, tt.body); a.code != tt.below {
				t.Errorf("at %s: got %d %s, want %d", tt.lowest-1, a.code, a.body, tt.below)
			}
			a := g.ask(tt.lowest.String(), tt.method, tt.path, tt.body)
			if a.code == tt.below {
				t.Errorf("at %s: got %d %s", tt.lowest, a.code, a.body)
			}
			if a.code < 300 && a.header.Get(versionHeader) != tt.lowest.String() {
				t.Errorf("at %s: version header %q", tt.lowest, a.header.Get(versionHeader))
			}
		})
	}
}

// Every field appears at its version and not before.
func TestFieldsAppearAtTheirVersion(t *testing.T) {
	g := newRig(t, "none")
	id := g.node("n1")
	p := g.must(201, "1.82", "POST", "/v1/ports", `{"address":"aa:bb:cc:00:00:01","node_uuid":"`+id+`"}`).object()["uuid"].(string)
	check := func(path, name string, since version) {
		for _, v := range []version{since - 1, since} {
			if v < minVersion {
				continue
			}
			if _, has := g.must(200, v.String(), "GET", path, "").object()[name]; has != (v >= since) {
				t.Errorf("%s at %s: there=%v", name, v, has)
			}
		}
	}
	for _, f := range nodes.fields {
		check("/v1/nodes/"+id, f.name, f.since)
	}
	for _, f := range ports.fields {
		check("/v1/ports/"+p, f.name, f.since)
	}
}

func TestStatesAsOldVersionsKnowThem(t *testing.T) {
	tests := []struct {
		state store.ProvisionState
		v     version
		want  any
	}{
		{store.Available, 1, nil},
		{store.Available, 2, "available"},
		{store.InspectWait, 38, "inspecting"},
		{store.InspectWait, 39, "inspect wait"},
		{store.Active, 1, "active"},
	}
	for _, tt := range tests {
		if got := orNull(shownState(tt.state, tt.v)); got == nil != (tt.want == nil) || got != nil && got != tt.want {
			t.Errorf("%s at %s: got %v, want %v", tt.state, tt.v, got, tt.want)
		}
	}
}

func TestVersionHeaders(t *testing.T) {
	g := newRig(t, "none")
	for _, tt := range []struct {
		name   string
		header []string
		want   string
		code   int
	}{
		{"none", nil, "1.1", 200},
		{"latest", []string{versionHeader, "latest"}, "1.82", 200},
		{"common header", []string{commonHeader, "baremetal 1.50"}, "1.50", 200},
		{"common header of many services", []string{commonHeader, "compute 2.90, baremetal latest"}, "1.82", 200},
		{"own header first", []string{commonHeader, "baremetal 1.50", versionHeader, "1.40"}, "1.40", 200},
		{"another service's", []string{commonHeader, "compute 2.90"}, "1.1", 200},
		{"too low", []string{versionHeader, "1.0"}, "", 406},
		{"too high", []string{versionHeader, "1.83"}, "", 406},
		{"negative", []string{versionHeader, "1.-1"}, "", 406},
		{"three parts", []string{versionHeader, "1.2.3"}, "", 406},
		{"huge", []string{versionHeader, "1.99999999999999999999"}, "", 406},
	} {
		a := g.ask("", "GET", "/v1/nodes", "", tt.header...)
		if a.code != tt.code || a.header.Get(versionHeader) != tt.want {
			t.Errorf("%s: got %d %q, want %d %q", tt.name, a.code, a.header.Get(versionHeader), tt.code, tt.want)
		}
		if a.header.Get(minVersionHeader) != "1.1" || a.header.Get(maxVersionHeader) != "1.82" {
			t.Errorf("%s: range %q to %q", tt.name, a.header.Get(minVersionHeader), a.header.Get(maxVersionHeader))
		}
	}
}

func TestPathsAsIronicSpellsThem(t *testing.T) {
	g := newRig(t, "none")
	id := g.node("n1")
	dotted := g.node("n2.json")
	for path, want := range map[string]string{
		"/v1/nodes/n1":           id,
		"/nodes/n1":              id,
		"/v1/nodes/n1/":          id,
		"/v1/nodes/n1.json":      id,
		"/nodes/" + id + ".json": id,
		"/v1/nodes/n2":           "",
		"/v1/nodes/n2.json":      dotted,
		"/v1/nodes/n2.json.json": dotted,
		"/v1/nodes/%6e1":         id,
	} {
		a := g.ask("1.82", "GET", path, "")
		got, _ := a.object()["uuid"].(string)
		if got != want {
			t.Errorf("%s: got %d %q, want %q", path, a.code, got, want)
		}
	}
	for _, path := range []string{"/v1/../v1/nodes", "/v1//nodes", "/v1/nodes/%2e%2e/ports", "/v1/nodes/a%2fb", "/v2/nodes", "/v1/nodes/n1/x", "/v1/nodes.json.json.json"} {
		if a := g.ask("1.82", "GET", path, ""); a.code != 404 {
			t.Errorf("%s: got %d", path, a.code)
		}
	}
	if a := g.ask("1.82", "GET", "/nodes.json", ""); a.code != 200 {
		t.Errorf("/nodes.json: got %d", a.code)
	}
}
