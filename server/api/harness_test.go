package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"

	"bessemer/server/auth"
	"bessemer/store"
	"bessemer/store/storetest"
)

// A rig is an API under test on real listeners.
type rig struct {
	t         testing.TB
	db        *store.DB
	fake      *fakeConductor
	api       *API
	auth      *auth.Auth
	url, prov string
	log       *strings.Builder
	images    *fakeImages
}

const (
	adminPassword  = "admin's password"
	readerPassword = "reader's password"
)

func newRig(t testing.TB, mode string) *rig {
	t.Helper()
	return newRigOn(t, storetest.Open(t), mode)
}

func newRigOn(t testing.TB, db *store.DB, mode string) *rig {
	t.Helper()
	a, err := auth.New(auth.Config{DB: db, Mode: mode, Cost: bcrypt.MinCost})
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, db: db, fake: newFakeConductor(db), auth: a, log: &strings.Builder{}, images: &fakeImages{db: db}}
	g.api = New(Config{
		DB: db, Conductor: g.fake, Auth: a, Images: g.images, Version: "test",
		Log: zerolog.New(zerolog.SyncWriter(g.log)), Listeners: []Listener{{"api", "127.0.0.1:6385"}},
	})
	if mode == auth.Basic {
		g.user("admin", adminPassword, auth.Admin)
		g.user("reader", readerPassword, auth.Reader)
	}
	g.url = g.serve(g.api.Handler())
	g.prov = g.serve(g.api.ProvisioningHandler())
	return g
}

func (g *rig) user(name, password, role string) {
	g.t.Helper()
	if err := g.auth.AddUser(name, password, role); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) serve(h http.Handler) string {
	s := httptest.NewUnstartedServer(h)
	ServerDefaults(s.Config)
	s.Start()
	g.t.Cleanup(s.Close)
	return s.URL
}

// An answer is what came back.
type answer struct {
	code   int
	header http.Header
	body   string
}

func (a answer) object() map[string]any {
	m := map[string]any{}
	_ = json.Unmarshal([]byte(a.body), &m)
	return m
}

// fault is the text of an error, Ironic's or ours.
func (a answer) fault() string {
	m := a.object()
	if s, ok := m["error_message"].(string); ok {
		var inner map[string]any
		_ = json.Unmarshal([]byte(s), &inner)
		for _, k := range []string{"faultstring", "description"} {
			if s, ok := inner[k].(string); ok {
				return s
			}
		}
	}
	if e, ok := m["error"].(map[string]any); ok {
		return fmt.Sprint(e["message"])
	}
	return ""
}

// ask sends a request at a microversion ("" for none) as admin.
func (g *rig) ask(v, method, path, body string, header ...string) answer {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.url+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if v != "" {
		req.Header.Set(versionHeader, v)
	}
	if g.auth.Mode() == auth.Basic {
		req.SetBasicAuth("admin", adminPassword)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	return g.send(req)
}

func (g *rig) send(req *http.Request) answer {
	g.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(raw)}
}

// ramdisk sends a request to the provisioning listener.
func (g *rig) ramdisk(v, method, path, body string) answer {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.prov+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if v != "" {
		req.Header.Set(versionHeader, v)
	}
	return g.send(req)
}

// must is ask that fails the test unless the code is as wanted.
func (g *rig) must(code int, v, method, path, body string) answer {
	g.t.Helper()
	a := g.ask(v, method, path, body)
	if a.code != code {
		g.t.Fatalf("%s %s %s: got %d %s, want %d", method, path, body, a.code, a.body, code)
	}
	return a
}

// node makes a node and returns its UUID.
func (g *rig) node(name string) string {
	g.t.Helper()
	a := g.must(201, "1.82", "POST", "/v1/nodes", fmt.Sprintf(`{"driver":"fake-hardware","name":%q,"resource_class":"baremetal"}`, name))
	return a.object()["uuid"].(string)
}

// set changes a node behind the API's back.
func (g *rig) set(uuid string, change func(*store.Node)) {
	g.t.Helper()
	err := g.db.Update(func(tx *store.Tx) error {
		n, err := store.Nodes.Get(tx, uuid)
		if err != nil {
			return err
		}
		change(n)
		return store.Nodes.Put(tx, n)
	})
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) get(uuid string) *store.Node {
	g.t.Helper()
	var n *store.Node
	err := g.db.View(func(tx *store.Tx) (err error) {
		n, err = store.Nodes.Get(tx, uuid)
		return err
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return n
}

// run stores a run of a node.
func (g *rig) run(r store.Run) {
	g.t.Helper()
	if err := g.db.Update(func(tx *store.Tx) error { return store.Runs.Put(tx, &r) }); err != nil {
		g.t.Fatal(err)
	}
}

func ago(d time.Duration) time.Time { return time.Now().Add(-d).UTC() }
