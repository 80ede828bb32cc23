package api

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"bessemer/server/auth"
	"bessemer/store"
)

func TestCheckDepth(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		ok       bool
	}{
		{"flat", `{"a":1}`, true},
		{"at the limit", strings.Repeat("[", 25) + strings.Repeat("]", 25), true},
		{"beyond", strings.Repeat("[", 26) + strings.Repeat("]", 26), false},
		{"objects beyond", strings.Repeat(`{"a":`, 26) + "1" + strings.Repeat("}", 26), false},
		{"never closed", strings.Repeat("[", 100), false},
		{"brackets in a string", `"` + strings.Repeat("[", 100) + `"`, true},
		{"escaped quote", `["\"` + strings.Repeat("[", 100) + `"]`, true},
		{"many beside each other", "[" + strings.Repeat("[],", 1000) + "[]]", true},
		{"closing first", strings.Repeat("]", 100) + strings.Repeat("[", 120), true},
		{"backslash at the end", `"\`, true},
	} {
		if err := checkDepth([]byte(tt.in), maxDepth); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Hostile bodies are refused, change nothing, and leave the server as it was.
func TestHostileBodies(t *testing.T) {
	g := newRig(t, auth.None)
	id := g.node("n1")
	before := g.get(id)
	deep := strings.Repeat("[", 200_000)
	for _, tt := range []struct {
		name, method, path, body string
		code                     int
	}{
		{"deep array", "POST", "/v1/nodes", deep, 400},
		{"deep object", "POST", "/v1/nodes", strings.Repeat(`{"a":`, 100_000), 400},
		{"deep in a patch", "PATCH", "/v1/nodes/n1", `[{"op":"add","path":"/extra/a","value":` + strings.Repeat("[", 24) + strings.Repeat("]", 24) + `}]`, 400},
		{"too large", "POST", "/v1/nodes", `{"driver":"fake-hardware","extra":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`, 413},
		{"too large a path in a patch", "PATCH", "/v1/nodes/n1", `[{"op":"add","path":"/extra/` + strings.Repeat("x", 2000) + `","value":1}]`, 400},
		{"many operations", "PATCH", "/v1/nodes/n1", "[" + strings.Repeat(`{"op":"add","path":"/extra/a","value":1},`, 1000) + `{"op":"add","path":"/extra/a","value":1}]`, 400},
		{"too large an object", "PATCH", "/v1/nodes/n1", `[{"op":"add","path":"/extra/a","value":"` + strings.Repeat("x", 600<<10) + `"}]`, 400},
		{"index into an object", "PATCH", "/v1/nodes/n1", `[{"op":"add","path":"/extra/-","value":1},{"op":"replace","path":"/extra/-1/x","value":1}]`, 400},
		{"root of all", "PATCH", "/v1/nodes/n1", `[{"op":"replace","path":"","value":{}}]`, 400},
		{"not UTF-8 in a name", "PATCH", "/v1/nodes/n1", "[{\"op\":\"replace\",\"path\":\"/name\",\"value\":\"\xff\xfe\"}]", 400},
		{"control characters", "PATCH", "/v1/nodes/n1", `[{"op":"replace","path":"/description","value":"a\u0000b\u001b[2J"}]`, 400},
		{"NaN", "POST", "/v1/nodes", `{"driver": NaN}`, 400},
		{"huge name", "GET", "/v1/nodes/" + strings.Repeat("x", 8000), "", 404},
		{"NUL in a name", "GET", "/v1/nodes/a%00b", "", 404},
		{"traversal", "GET", "/v1/nodes/..%2f..%2fetc%2fpasswd", "", 404},
		{"hostile trait", "PUT", "/v1/nodes/n1/traits", `{"traits":["CUSTOM_<script>"]}`, 400},
		{"many traits", "PUT", "/v1/nodes/n1/traits", `{"traits":["CUSTOM_0` + many(`","CUSTOM_%d`, 60) + `"]}`, 400},
		{"step bomb", "PUT", "/v1/nodes/n1/states/provision", `{"target":"clean","clean_steps":[` + strings.Repeat(`{"interface":"deploy","step":"x"},`, 300) + `{"interface":"deploy","step":"x"}]}`, 400},
		{"number as text", "PUT", "/v1/nodes/n1/states/power", `{"target":5}`, 400},
		{"MAC of 20 bytes", "POST", "/v1/ports", `{"address":"00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01","node_uuid":"` + id + `"}`, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := g.ask("1.82", tt.method, tt.path, tt.body)
			if a.code != tt.code || a.fault() == "" {
				t.Errorf("got %d %.300s, want %d", a.code, a.body, tt.code)
			}
		})
	}
	if after := g.get(id); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the node has changed:\n%+v\n%+v", before, after)
	}
}

func many(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i+1)
	}
	return b.String()
}

func TestHostileInventory(t *testing.T) {
	g := newRig(t, auth.None)
	id := g.node("n1")
	g.must(201, "1.82", "POST", "/v1/ports", `{"address":"aa:bb:cc:00:00:01","node_uuid":"`+id+`"}`)
	nics := func(n int) string {
		return `{"inventory":{"interfaces":[{"mac_address":"aa:bb:cc:00:00:01","name":"eth0"}` + strings.Repeat(`,{"mac_address":"00:11:22:33:44:55","name":"<img src=x>"}`, n) + `]}}`
	}
	for _, tt := range []struct {
		name, body string
		state      store.ProvisionState
		code       int
	}{
		{"not expected now", nics(0), store.Active, 404},
		{"5000 cards", nics(5000), store.DeployWait, 400},
		{"17 MiB", `{"inventory":{"hostname":"` + strings.Repeat("x", 17<<20) + `"}}`, store.DeployWait, 413},
		{"large vendor", `{"inventory":{"interfaces":[{"mac_address":"aa:bb:cc:00:00:01","vendor":"` + strings.Repeat("x", 300<<10) + `"}]}}`, store.DeployWait, 400},
		{"wrong types", `{"inventory":{"interfaces":"x"}}`, store.DeployWait, 400},
		{"no inventory", `{}`, store.DeployWait, 400},
		{"stranger", `{"inventory":{"interfaces":[{"mac_address":"00:11:22:33:44:55"}]}}`, store.DeployWait, 404},
		{"fine", nics(1), store.DeployWait, 200},
	} {
		g.set(id, func(n *store.Node) { n.ProvisionState = tt.state })
		if a := g.ramdisk("", "POST", "/v1/continue_inspection", tt.body); a.code != tt.code {
			t.Errorf("%s: got %d %.200s, want %d", tt.name, a.code, a.body, tt.code)
		}
		if kept := g.get(id).DriverInternalInfo["inventory"] != nil; kept != (tt.code == 200) {
			t.Errorf("%s: kept=%v", tt.name, kept)
		}
	}
	g.set(id, func(n *store.Node) { n.Agent.Address = "192.0.2.99" })
	if a := g.ramdisk("", "POST", "/v1/continue_inspection", nics(0)); a.code != 404 {
		t.Errorf("from another address than the agent's: got %d", a.code)
	}
}

// A refused request's body is read, so that the answer reaches a client that
// is still sending, and the connection goes on.
func TestRefusedBodiesAreDrained(t *testing.T) {
	g := newRig(t, auth.None)
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	r := bufio.NewReader(conn)
	for range 3 {
		body := bytes.Repeat([]byte("x"), 700<<10)
		fmt.Fprintf(conn, "PUT /v1/nosuch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n", len(body))
		if _, err := conn.Write(body); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != 404 || resp.Close {
			t.Errorf("got %d, close=%v", resp.StatusCode, resp.Close)
		}
	}
}

// An endless body is cut off; a body that does not come is not waited for for
// ever. The reader says how much was taken.
func TestEndlessBody(t *testing.T) {
	g := newRig(t, auth.None)
	n := &counting{}
	r := httptest.NewRequest("POST", "/v1/nodes", n)
	r.Host = "127.0.0.1"
	r.ContentLength = -1
	w := httptest.NewRecorder()
	g.api.Handler().ServeHTTP(w, r)
	if w.Code != 413 || n.n > 4<<20 {
		t.Errorf("got %d after %d bytes", w.Code, n.n)
	}
}

// A body must come within a time that grows with its limit.
func TestBodiesHaveADeadline(t *testing.T) {
	g := newRig(t, auth.None)
	for path, most := range map[string]time.Duration{"/v1/nodes": time.Minute, "/v1/nodes/x/states/provision": 2 * time.Minute} {
		r := httptest.NewRequest("PUT", path, strings.NewReader("{}"))
		if path == "/v1/nodes" {
			r.Method = "POST"
		}
		r.Host = "127.0.0.1"
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		g.api.Handler().ServeHTTP(w, r)
		if d := time.Until(w.read); d < time.Second || d > most {
			t.Errorf("%s: the body may take %v", path, d)
		}
	}
}

type deadlines struct {
	*httptest.ResponseRecorder
	read time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	if d.read.IsZero() {
		d.read = t
	}
	return nil
}

type counting struct{ n int }

func (c *counting) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	c.n += len(b)
	return len(b), nil
}

func TestTooManyHeadersAreRefused(t *testing.T) {
	g := newRig(t, auth.None)
	req, _ := http.NewRequestWithContext(t.Context(), "GET", g.url+"/v1/nodes", nil)
	for i := range 3000 {
		req.Header.Set(fmt.Sprintf("X-H-%d", i), strings.Repeat("x", 50))
	}
	if a := g.send(req); a.code != 431 {
		t.Errorf("got %d", a.code)
	}
}

func FuzzPatch(f *testing.F) {
	f.Add(`[{"op":"add","path":"/extra/a","value":1}]`)
	f.Add(`[{"op":"replace","path":"/driver_info/fake_key","value":"******"}]`)
	f.Add(`[{"op":"remove","path":"/properties"},{"op":"add","path":"/properties/a/b/-","value":[{}]}]`)
	f.Add(`[{"op":"replace","path":"/automated_clean","value":"off"},{"op":"remove","path":"/name"}]`)
	g := newRig(f, auth.None)
	id := g.node("n1")
	old := g.get(id)
	f.Fuzz(func(t *testing.T, body string) {
		c := g.api.newCall(httptest.NewRecorder(), httptest.NewRequest("PATCH", "/v1/nodes/n1", nil), &route{})
		c.v = maxVersion
		if checkDepth([]byte(body), maxDepth) != nil {
			return
		}
		c.body = []byte(body)
		ops, err := c.patch()
		if err != nil {
			return
		}
		n, err := c.patched(old, ops, false)
		if err != nil {
			if f := asFault(err, ""); f.status >= 500 {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		if n.UUID != old.UUID || n.ProvisionState != old.ProvisionState || n.CreatedAt != old.CreatedAt {
			t.Errorf("%q changed what clients may not", body)
		}
	})
}
