package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"bessemer/server/auth"
	"bessemer/store"
)

type listed struct {
	Nodes []struct{ UUID, Name string }
	Next  string
}

func (g *rig) list(path string) listed {
	g.t.Helper()
	var l listed
	if err := json.Unmarshal([]byte(g.must(200, "1.82", "GET", path, "").body), &l); err != nil {
		g.t.Fatal(err)
	}
	return l
}

func (l listed) names() string {
	var out []string
	for _, n := range l.Nodes {
		out = append(out, n.Name)
	}
	return strings.Join(out, " ")
}

func TestFiltersAndSorting(t *testing.T) {
	g := newRig(t, auth.None)
	for _, name := range []string{"c", "a", "b"} {
		g.node(name)
	}
	inst := "11111111-2222-4333-8444-555555555555"
	set := func(name string, f func(*store.Node)) {
		g.set(g.list("/v1/nodes?fields=uuid,name").find(t, name), f)
	}
	set("a", func(n *store.Node) {
		n.InstanceUUID, n.Maintenance, n.Owner, n.ResourceClass, n.Description = inst, true, "me", "gold", "Rack 7, top"
	})
	set("b", func(n *store.Node) {
		n.ProvisionState, n.Lessee, n.Shard, n.Retired, n.Fault = store.Active, "me", "s1", true, "power failure"
	})
	for path, want := range map[string]string{
		"":                                    "c a b",
		"?sort_key=name":                      "a b c",
		"?sort_key=name&sort_dir=desc":        "c b a",
		"?sort_key=provision_state":           "b c a",
		"?sort_key=created_at":                "c a b",
		"?instance_uuid=" + inst:              "a",
		"?associated=true":                    "a",
		"?associated=False":                   "c b",
		"?maintenance=1":                      "a",
		"?maintenance=no&sort_key=name":       "b c",
		"?provision_state=active":             "b",
		"?driver=fake-hardware":               "c a b",
		"?driver=ipmi":                        "",
		"?resource_class=gold":                "a",
		"?fault=power+failure":                "b",
		"?owner=me":                           "a",
		"?lessee=me":                          "b",
		"?project=me":                         "a b",
		"?shard=s1,s2":                        "b",
		"?sharded=false":                      "c a",
		"?retired=true":                       "b",
		"?description_contains=RACK":          "a",
		"?conductor=refhost":                  "c a b",
		"?conductor=other":                    "",
		"?conductor_group=":                   "c a b",
		"?owner=me&maintenance=false":         "",
		"/detail?owner=me":                    "a",
		"?detail=true&provision_state=active": "b",
	} {
		if got := g.list("/v1/nodes" + path).names(); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"?associated=perhaps", "?instance_uuid=x", "?fault=boredom", "?chassis_uuid=x"} {
		if a := g.ask("1.82", "GET", "/v1/nodes"+path, ""); a.code != 400 {
			t.Errorf("%s: got %d", path, a.code)
		}
	}
}

func (l listed) find(t *testing.T, name string) string {
	for _, n := range l.Nodes {
		if n.Name == name {
			return n.UUID
		}
	}
	t.Fatalf("no node %s", name)
	return ""
}

// Following next from page to page gives every node once, in order, whatever
// is sorted by.
func TestPaging(t *testing.T) {
	g := newRig(t, auth.None)
	for i := range 23 {
		g.must(201, "1.82", "POST", "/v1/nodes", fmt.Sprintf(`{"driver":"fake-hardware","name":"n%02d","resource_class":"c%d"}`, i, i%3))
	}
	for _, q := range []string{"limit=5", "limit=5&sort_key=resource_class", "limit=4&sort_key=resource_class&sort_dir=desc&owner=", "limit=1000"} {
		whole := g.list("/v1/nodes?" + strings.Replace(strings.Replace(q, "limit=5", "", 1), "limit=4", "", 1)).names()
		var got []string
		path := "/v1/nodes?" + q
		for pages := 0; path != ""; pages++ {
			l := g.list(path)
			if s := l.names(); s != "" {
				got = append(got, s)
			}
			if path = ""; l.Next != "" {
				u, err := url.Parse(l.Next)
				if err != nil || !strings.HasPrefix(l.Next, g.url) || pages > 20 {
					t.Fatalf("next %q, %v", l.Next, err)
				}
				path = u.RequestURI()
			}
		}
		if s := strings.Join(got, " "); s != whole || strings.Count(s, "n") != 23 {
			t.Errorf("%s:\n got %s\nwant %s", q, s, whole)
		}
	}
}

func TestPatchInTransition(t *testing.T) {
	g := newRig(t, auth.None)
	id := g.node("n1")
	lock := &store.Reservation{Holder: "refhost", Why: "deploy", Since: time.Now()}
	for _, tt := range []struct {
		name string
		n    store.Node
		code int
	}{
		{"at rest", store.Node{ProvisionState: store.Manageable}, 200},
		{"deploying", store.Node{ProvisionState: store.Deploying, TargetProvisionState: store.Active}, 409},
		{"cleaning", store.Node{ProvisionState: store.CleanWait, TargetProvisionState: store.Available}, 409},
		{"failed, with a target", store.Node{ProvisionState: store.DeployFailed, TargetProvisionState: store.Active}, 200},
		{"verifying", store.Node{ProvisionState: store.Verifying, TargetProvisionState: store.Manageable}, 200},
		{"inspecting", store.Node{ProvisionState: store.Inspecting, TargetProvisionState: store.Manageable}, 409},
		{"locked", store.Node{ProvisionState: store.Manageable, Reservation: lock}, 409},
	} {
		g.set(id, func(n *store.Node) {
			n.ProvisionState, n.TargetProvisionState, n.Reservation = tt.n.ProvisionState, tt.n.TargetProvisionState, tt.n.Reservation
		})
		a := g.ask("1.82", "PATCH", "/v1/nodes/n1", `[{"op":"add","path":"/extra/x","value":"`+tt.name+`"}]`)
		if a.code != tt.code {
			t.Errorf("%s: got %d %s, want %d", tt.name, a.code, a.body, tt.code)
		}
		if changed := g.get(id).Extra["x"] == tt.name; changed != (tt.code == 200) {
			t.Errorf("%s: changed=%v", tt.name, changed)
		}
	}
	g.must(202, "1.82", "PUT", "/v1/nodes/n1/maintenance", `{"reason":"stop"}`) // always possible
	g.must(409, "1.82", "DELETE", "/v1/nodes/n1", "")
	g.set(id, func(n *store.Node) { n.Reservation = nil })
	g.must(204, "1.82", "DELETE", "/v1/nodes/n1", "")
}

func TestPatchRules(t *testing.T) {
	g := newRig(t, auth.None)
	one, two := g.node("n1"), g.node("n2")
	inst := "11111111-2222-4333-8444-555555555555"
	p := func(node, path string, v any) answer {
		raw, _ := json.Marshal([]map[string]any{{"op": "add", "path": path, "value": v}})
		return g.ask("1.82", "PATCH", "/v1/nodes/"+node, string(raw))
	}
	for _, tt := range []struct {
		name string
		do   func() answer
		code int
	}{
		{"instance", func() answer { return p("n1", "/instance_uuid", inst) }, 200},
		{"another's instance", func() answer { return p("n2", "/instance_uuid", inst) }, 409},
		{"another instance", func() answer { return p("n1", "/instance_uuid", "21111111-2222-4333-8444-555555555555") }, 409},
		{"no UUID", func() answer { return p("n2", "/instance_uuid", "x") }, 400},
		{"empty UUID", func() answer { return p("n2", "/instance_uuid", "") }, 400},
		{"taken name", func() answer { return p("n2", "/name", "n1") }, 409},
		{"no name", func() answer { return p("n2", "/name", nil) }, 200},
		{"name again", func() answer { return p(two, "/name", "n2") }, 200},
		{"long description", func() answer { return p("n2", "/description", strings.Repeat("x", 4097)) }, 400},
		{"long class", func() answer { return p("n2", "/resource_class", strings.Repeat("x", 81)) }, 400},
		{"reason without a flag", func() answer { return p("n2", "/retired_reason", "old") }, 400},
		{"automated_clean", func() answer { return p("n2", "/automated_clean", "False") }, 200},
		{"nested", func() answer { return p("n2", "/properties/capabilities", "boot_mode:uefi") }, 200},
		{"deeply nested in nothing", func() answer { return p("n2", "/extra/a/b", 1) }, 400},
		{"wrong type", func() answer { return p("n2", "/driver_info", "x") }, 400},
		{"null object", func() answer { return p("n2", "/extra", nil) }, 200},
		{"maintenance off clears its reason", func() answer {
			g.set(one, func(n *store.Node) { n.Maintenance, n.MaintenanceReason, n.Fault = true, "x", "power failure" })
			return p("n1", "/maintenance", "false")
		}, 200},
		{"interface of an active node", func() answer {
			g.set(two, func(n *store.Node) { n.ProvisionState = store.Active })
			return p("n2", "/boot_interface", "pxe")
		}, 409},
		{"the same in maintenance", func() answer {
			g.set(two, func(n *store.Node) { n.Maintenance = true })
			return p("n2", "/boot_interface", "pxe")
		}, 200},
		{"class of an active node", func() answer { return p("n2", "/resource_class", "other") }, 409},
	} {
		if a := tt.do(); a.code != tt.code {
			t.Errorf("%s: got %d %s, want %d", tt.name, a.code, a.body, tt.code)
		}
	}
	n := g.get(one)
	if n.Maintenance || n.MaintenanceReason != "" || n.Fault != "" || n.InstanceUUID != inst {
		t.Errorf("first node %+v", n)
	}
	n = g.get(two)
	if n.AutomatedClean == nil || *n.AutomatedClean || n.Properties["capabilities"] != "boot_mode:uefi" || n.Interfaces["boot"] != "pxe" {
		t.Errorf("second node %+v", n)
	}
}

func TestDeletingANodeDeletesWhatIsIts(t *testing.T) {
	g := newRig(t, auth.None)
	id := g.node("n1")
	g.must(201, "1.82", "POST", "/v1/ports", `{"address":"aa:bb:cc:00:00:01","node_uuid":"`+id+`"}`)
	_ = g.db.Update(func(tx *store.Tx) error { return store.ConfigDrives.Put(tx, &store.ConfigDrive{Node: id}) })
	g.set(id, func(n *store.Node) { n.ProvisionState = store.DeployFailed })
	g.must(409, "1.82", "DELETE", "/v1/nodes/n1", "")
	g.must(202, "1.82", "PUT", "/v1/nodes/n1/maintenance", "")
	g.must(204, "1.82", "DELETE", "/v1/nodes/n1", "")
	_ = g.db.View(func(tx *store.Tx) error {
		if n, m := store.Ports.Count(tx), store.ConfigDrives.Count(tx); n+m != 0 {
			t.Errorf("%d ports and %d config drives are left", n, m)
		}
		return nil
	})
}

// Writers of one node at the same time lose nothing, and each request keeps
// its own identity and version.
func TestConcurrentWriters(t *testing.T) {
	g := newRig(t, auth.Basic)
	id := g.node("n1")
	const writers, each = 8, 5
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			v := fmt.Sprintf("1.%d", 50+w)
			for i := range each {
				for {
					a := g.ask(v, "PATCH", "/v1/nodes/n1", fmt.Sprintf(`[{"op":"add","path":"/extra/w%d-%d","value":1}]`, w, i))
					if a.header.Get(versionHeader) != v {
						t.Errorf("asked at %s, answered at %s", v, a.header.Get(versionHeader))
					}
					if a.code == 200 {
						break
					}
					if a.code != 409 {
						t.Errorf("got %d %s", a.code, a.body)
						break
					}
				}
			}
		})
		wg.Go(func() {
			user := []string{"admin", "reader"}[w%2]
			for range 20 {
				req, _ := http.NewRequestWithContext(t.Context(), "GET", g.url+"/api/v1/status", nil)
				req.SetBasicAuth(user, map[string]string{"admin": adminPassword, "reader": readerPassword}[user])
				if a := g.send(req); a.object()["user"] != user {
					t.Errorf("asked as %s, was %v", user, a.object()["user"])
				}
			}
		})
	}
	wg.Wait()
	if n := len(g.get(id).Extra); n != writers*each {
		t.Errorf("%d of %d writes are kept", n, writers*each)
	}
}

// A node that leaves a filtered list between two pages does not break the
// list off.
func TestPagesGoOnBehindAChangedMarker(t *testing.T) {
	g := newRig(t, "none")
	var ids []string
	for _, name := range []string{"a", "b", "c"} {
		id := g.node(name)
		g.set(id, func(n *store.Node) { n.ProvisionState = store.Available })
		ids = append(ids, id)
	}
	const list = "/v1/nodes?provision_state=available&sort_key=name&limit=1"
	a := g.must(200, "1.82", "GET", list, "")
	g.set(ids[0], func(n *store.Node) { n.ProvisionState = store.Deploying })
	next := strings.TrimPrefix(a.object()["next"].(string), g.url)
	if !strings.Contains(next, "provision_state=available") || !strings.Contains(next, "sort_key=name") {
		t.Fatalf("next is %q", next)
	}
	if a = g.must(200, "1.82", "GET", next, ""); !strings.Contains(a.body, ids[1]) || strings.Contains(a.body, ids[2]) {
		t.Errorf("second page: %s", a.body)
	}
	g.must(200, "1.82", "GET", list+"&sort_dir=desc&marker="+ids[0], "")
	g.must(404, "1.82", "GET", list+"&marker=11111111-2222-4333-8444-555555555555", "")
}

func TestUUIDsInCapitals(t *testing.T) {
	g := newRig(t, "none")
	id := g.node("n1")
	g.must(200, "1.82", "GET", "/v1/nodes/"+strings.ToUpper(id), "")
	g.must(204, "1.82", "DELETE", "/v1/nodes/"+strings.ToUpper(id), "")
}
