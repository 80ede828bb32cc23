package load

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"bessemer/server/client"
)

// An appliance that moves nodes at once, and loses its mind as tests want it to.
type appliance struct {
	mu    sync.Mutex
	nodes map[string]map[string]any
	order []string
	fail  map[string]bool // names of nodes whose deployment fails
	away  int             // so many requests are cut off without an answer
	down  int             // so many were
}

var leadsTo = map[string]string{"manage": "manageable", "provide": "available", "active": "active"}

func (a *appliance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away > 0 && r.Method == http.MethodPut {
		a.away--
		a.down++
		panic(http.ErrAbortHandler)
	}
	raw, _ := io.ReadAll(r.Body)
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch {
	case r.Method == http.MethodPost && path[0] == "nodes":
		a.create(w, raw)
	case r.Method == http.MethodPost, r.Method == http.MethodPatch:
		fmt.Fprint(w, "{}")
	case r.Method == http.MethodPut:
		a.move(path[1], raw)
		w.WriteHeader(http.StatusAccepted)
	default:
		a.list(w, r)
	}
}

func (a *appliance) create(w http.ResponseWriter, raw []byte) {
	var n map[string]any
	if json.Unmarshal(raw, &n) != nil || n["name"] == "refused" {
		http.Error(w, `{"error_message":"no"}`, http.StatusBadRequest)
		return
	}
	id := fmt.Sprintf("id-%03d", len(a.order))
	n["uuid"], n["provision_state"], n["provision_updated_at"] = id, "enroll", time.Now().Format(time.RFC3339Nano)
	a.nodes[id], a.order = n, append(a.order, id)
	_ = json.NewEncoder(w).Encode(n)
}

func (a *appliance) move(id string, raw []byte) {
	var body struct{ Target string }
	_ = json.Unmarshal(raw, &body)
	n := a.nodes[id]
	n["provision_state"] = leadsTo[body.Target]
	if name, _ := n["name"].(string); body.Target == "active" && a.fail[name] {
		n["provision_state"], n["last_error"] = "deploy failed", "the disk is broken"
	}
	n["provision_updated_at"] = time.Now().Format(time.RFC3339Nano)
}

func (a *appliance) list(w http.ResponseWriter, r *http.Request) {
	page := []map[string]any{}
	for _, id := range a.order {
		if id > r.URL.Query().Get("marker") && len(page) < 1000 {
			page = append(page, a.nodes[id])
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"nodes": page})
}

func TestRun(t *testing.T) {
	a := &appliance{nodes: map[string]map[string]any{}, fail: map[string]bool{"n-7": true}, away: 3}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	api, err := client.New(s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []Node
	for i := range 20 {
		nodes = append(nodes, Node{Name: fmt.Sprintf("n-%d", i), Driver: "fake-hardware", MACs: []string{"02:00:00:00:00:01"}})
	}
	nodes = append(nodes, Node{Name: "refused"})
	reported := 0
	got, err := Run(t.Context(), Options{
		API: api, Nodes: nodes, Image: map[string]any{"image_source": "x"}, Report: func(Result) { reported++ },
		Memory: func() (int64, int64, int64) { return 100e6, 50e6, 200e6 },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]int{"enroll": {21, 1}, "manage": {20, 0}, "provide": {20, 0}, "deploy": {20, 1}}
	for _, res := range got {
		if w, ok := want[res.Phase]; ok && (res.N != w[0] || res.Errors != w[1]) || res.Memory != 100 || res.Rack != 50 || res.Peak != 200 {
			t.Errorf("%+v, want %v", res, w)
		}
		if res.Phase == "deploy" && !strings.Contains(res.Error, "the disk is broken") {
			t.Errorf("the failure does not say why: %q", res.Error)
		}
		delete(want, res.Phase)
	}
	if len(want) > 0 || reported != len(got) || got[len(got)-1].N == 0 {
		t.Errorf("missing %v, %d of %d reported: %+v", want, reported, len(got), got)
	}
	if a.down != 3 {
		t.Errorf("%d requests were lost, want 3", a.down)
	}
}

func TestRunSaysWhyNothingCanBeEnrolled(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	api, _ := client.New(s.URL, nil)
	if _, err := Run(t.Context(), Options{API: api, Nodes: []Node{{Name: "a"}}}); err == nil || !strings.Contains(err.Error(), "create node a") {
		t.Errorf("got %v", err)
	}
}

func TestSum(t *testing.T) {
	var d []time.Duration
	for i := range 200 {
		d = append(d, time.Duration(200-i)*time.Millisecond)
	}
	got := sum("x", 2*time.Second, d, nil)
	if got.P50 != 101 || got.P99 != 199 || got.Max != 200 || got.Rate != 100 {
		t.Errorf("%+v", got)
	}
}
