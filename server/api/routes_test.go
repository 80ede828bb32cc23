package api

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bessemer/server/auth"
)

var wildcard = regexp.MustCompile(`\{[a-z]+\}`)

// filled is a route's path with something in its wildcards.
func filled(path string) string { return wildcard.ReplaceAllString(path, "x") }

// open are the requests that need no credentials.
var open = []string{"GET /", "GET /v1", "GET /healthz", "GET /readyz", "POST /api/v1/tokens"}

// Every route answers 401 without credentials, and with bad ones, but for
// those that are public.
func TestEveryRouteAsksWhoYouAre(t *testing.T) {
	g := newRig(t, auth.Basic)
	routes := append(ironicRoutes(), ownRoutes()...)
	routes = append(routes, route{method: "GET", path: "/"}, route{method: "GET", path: "/nosuch"}, route{method: "DELETE", path: "/v1/nosuch/x"})
	for _, rt := range routes {
		for name, set := range map[string]func(*http.Request){
			"nothing":       func(*http.Request) {},
			"a bad token":   func(r *http.Request) { r.Header.Set("X-Auth-Token", "notused") },
			"claimed roles": func(r *http.Request) { r.Header.Set("X-Roles", "admin"); r.Header.Set("X-User-Id", "admin") },
		} {
			req, _ := http.NewRequestWithContext(t.Context(), rt.method, g.url+filled(rt.path), strings.NewReader("{}"))
			req.Header.Set(versionHeader, "1.82")
			set(req)
			a := g.send(req)
			public := slices.Contains(open, rt.method+" "+rt.path)
			denied := a.code == 401
			if rt.path == "/api/v1/tokens" && rt.method == "POST" {
				public = false // it answers 401 itself: there is no password in the body
			}
			if denied == public {
				t.Errorf("%s %s with %s: got %d %s", rt.method, rt.path, name, a.code, a.body)
			}
			if denied && !strings.Contains(a.body, `{"error":{"message":`) {
				t.Errorf("%s %s: body %s", rt.method, rt.path, a.body)
			}
		}
	}
}

// Readers read, and change nothing but their own tokens.
func TestReadersMayNotWrite(t *testing.T) {
	g := newRig(t, auth.Basic)
	token, _, err := g.auth.Login("192.0.2.1", "reader", readerPassword)
	if err != nil {
		t.Fatal(err)
	}
	for _, rt := range append(ironicRoutes(), ownRoutes()...) {
		if rt.opts.open || rt.opts.anyone || rt.path == "/api/v1/events" {
			continue
		}
		req, _ := http.NewRequestWithContext(t.Context(), rt.method, g.url+filled(rt.path), strings.NewReader("{}"))
		req.Header.Set(versionHeader, "1.82")
		req.Header.Set("X-Auth-Token", token)
		a := g.send(req)
		want := rt.method != "GET" || rt.opts.admin
		if (a.code == 403) != want {
			t.Errorf("%s %s as reader: got %d %s", rt.method, rt.path, a.code, a.body)
		}
	}
}

// What the two listeners answer does not overlap.
func TestListenersAreApart(t *testing.T) {
	g := newRig(t, auth.None)
	for _, rt := range append(ironicRoutes(), ownRoutes()...) {
		if rt.path == "/v1" {
			continue
		}
		req, _ := http.NewRequestWithContext(t.Context(), rt.method, g.prov+filled(rt.path), strings.NewReader("{}"))
		req.Header.Set(versionHeader, "1.82")
		if a := g.send(req); a.code != 404 {
			t.Errorf("provisioning listener: %s %s: got %d %s", rt.method, rt.path, a.code, a.body)
		}
	}
	for _, rt := range ramdiskRoutes() {
		if rt.path == "/" || rt.path == "/v1" {
			continue
		}
		if a := g.ask("1.82", rt.method, filled(rt.path), "{}"); a.code != 404 {
			t.Errorf("API listener: %s %s: got %d %s", rt.method, rt.path, a.code, a.body)
		}
	}
	for _, path := range []string{"/ui/", "/debug/pprof/", "/boot/x"} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", g.prov+path, nil)
		if a := g.send(req); a.code != 404 {
			t.Errorf("provisioning listener: %s: got %d", path, a.code)
		}
	}
}

// The OpenAPI document has each route of /api/v1, and no other.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name, In string }
			Responses   map[string]any
		}
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(openAPI, &doc); err != nil || doc.OpenAPI != "3.1.0" {
		t.Fatalf("%q, %v", doc.OpenAPI, err)
	}
	ids := map[string]bool{}
	for _, rt := range ownRoutes() {
		if !strings.HasPrefix(rt.path, "/api/") {
			continue
		}
		op, ok := doc.Paths[rt.path][strings.ToLower(rt.method)]
		if !ok {
			t.Errorf("%s %s is not in the document", rt.method, rt.path)
			continue
		}
		delete(doc.Paths[rt.path], strings.ToLower(rt.method))
		if op.OperationID == "" || ids[op.OperationID] || op.Responses["401"] == nil {
			t.Errorf("%s %s: operation %q, responses %v", rt.method, rt.path, op.OperationID, op.Responses)
		}
		ids[op.OperationID] = true
		for _, w := range wildcard.FindAllString(rt.path, -1) {
			if !slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool { return "{"+p.Name+"}" == w && p.In == "path" }) {
				t.Errorf("%s %s: parameter %s is not described", rt.method, rt.path, w)
			}
		}
	}
	for path, ops := range doc.Paths {
		for method := range ops {
			t.Errorf("%s %s is in the document but not served", method, path)
		}
	}
	for _, ref := range regexp.MustCompile(`#/components/schemas/(\w+)`).FindAllStringSubmatch(string(openAPI), -1) {
		if doc.Components.Schemas[ref[1]] == nil {
			t.Errorf("schema %s is not defined", ref[1])
		}
	}
}

func TestSecurityHeaders(t *testing.T) {
	g := newRig(t, auth.Basic)
	for _, path := range []string{"/", "/v1/nodes", "/nosuch", "/api/v1/status", "/healthz"} {
		a := g.ask("1.82", "GET", path, "")
		for k, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
		} {
			if got := a.header.Get(k); got != want {
				t.Errorf("%s: %s is %q", path, k, got)
			}
		}
		if !strings.HasPrefix(a.header.Get(requestIDHeader), "req-") || !strings.Contains(a.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %v", path, a.header)
		}
		if a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s allows other origins", path)
		}
	}
}

// Pages of other sites cannot make a browser change anything.
func TestOtherSitesAreRefused(t *testing.T) {
	g := newRig(t, auth.None)
	host := strings.TrimPrefix(g.url, "http://")
	for _, tt := range []struct {
		name   string
		method string
		header []string
		code   int
	}{
		{"no origin", "POST", nil, 201},
		{"same origin", "POST", []string{"Origin", g.url, "Sec-Fetch-Site", "same-origin"}, 201},
		{"other origin", "POST", []string{"Origin", "https://evil.example"}, 403},
		{"null origin", "POST", []string{"Origin", "null"}, 403},
		{"similar origin", "POST", []string{"Origin", "http://127.0.0.1.evil.example"}, 403},
		{"other port", "POST", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"cross-site form", "POST", []string{"Content-Type", "text/plain", "Sec-Fetch-Site", "cross-site"}, 403},
		{"same-site page", "POST", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"rebound name", "GET", []string{"Host", "evil.example:6385"}, 403},
		{"localhost", "GET", []string{"Host", "localhost:6385"}, 200},
		{"address", "GET", []string{"Host", host}, 200},
		{"IPv6", "GET", []string{"Host", "[::1]:6385"}, 200},
	} {
		body := ""
		if tt.method == "POST" {
			body = `{"driver":"fake-hardware"}`
		}
		if a := g.ask("1.82", tt.method, "/v1/nodes", body, tt.header...); a.code != tt.code {
			t.Errorf("%s: got %d %s, want %d", tt.name, a.code, a.body, tt.code)
		}
	}
}

func TestHostAllowList(t *testing.T) {
	g := newRig(t, auth.Basic)
	g.api.Hosts = []string{"bessemer.example"}
	for host, code := range map[string]int{"bessemer.example:6385": 200, "BESSEMER.example": 200, "127.0.0.1:1": 200, "evil.example": 403, "": 200} {
		if host == "" {
			continue
		}
		if a := g.ask("1.82", "GET", "/v1/nodes", "", "Host", host); a.code != code {
			t.Errorf("%s: got %d, want %d", host, a.code, code)
		}
	}
}

// A panic reaches neither the process nor the client.
func TestPanicStaysInside(t *testing.T) {
	g := newRig(t, auth.None)
	id := g.node("n1")
	g.fake.boom = true
	a := g.ask("1.82", "PUT", "/v1/nodes/"+id+"/states/power", `{"target":"power on"}`)
	if a.code != 500 || strings.Contains(a.body, "secret-in-a-panic") || strings.Contains(a.body, "goroutine") || !strings.Contains(a.fault(), a.header.Get(requestIDHeader)) {
		t.Errorf("got %d %s", a.code, a.body)
	}
	if !strings.Contains(g.log.String(), a.header.Get(requestIDHeader)) {
		t.Error("the log does not have it")
	}
	g.fake.boom = false
	g.must(202, "1.82", "PUT", "/v1/nodes/"+id+"/states/power", `{"target":"power on"}`)
}

// A fault of ours tells the request id and nothing else.
func TestInternalErrorsAreNotTold(t *testing.T) {
	g := newRig(t, auth.None)
	id := g.node("n1")
	g.fake.fail = &json.InvalidUnmarshalError{}
	a := g.ask("1.82", "GET", "/v1/nodes/"+id+"/validate", "")
	if a.code != 500 || strings.Contains(a.body, "json") || !strings.Contains(a.fault(), "req-") || !strings.Contains(a.body, "Server") {
		t.Errorf("got %d %s", a.code, a.body)
	}
}

func TestDashboard(t *testing.T) {
	g := newRig(t, auth.Basic)
	g.api.UI = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		_, _ = io.WriteString(w, "dashboard "+r.URL.Path)
	})
	h := g.api.Handler()
	get := func(path, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := get("/", "text/html,*/*"); w.Code != 302 || w.Header().Get("Location") != "/ui/" {
		t.Errorf("a browser at /: %d %v", w.Code, w.Header())
	}
	if w := get("/", "application/json"); w.Code != 200 || !strings.Contains(w.Body.String(), "default_version") {
		t.Errorf("a client at /: %d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/ui/", "/ui/a.js"} {
		if w := get(path, "*/*"); w.Code != 200 || w.Body.String() != "dashboard "+path || w.Header().Get("Content-Security-Policy") != "default-src 'self'" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := get("/uix", "*/*"); w.Code != 401 {
		t.Errorf("/uix: %d", w.Code)
	}
}
