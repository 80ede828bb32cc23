package redfish

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bessemer/bmc"
)

// A bystander is another server; a hostile controller wants us to call it.
type bystander struct {
	*httptest.Server
	hits atomic.Int64
}

func newBystander(t *testing.T) *bystander {
	s := &bystander{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.hits.Add(1)
		reply(w, map[string]any{"PowerState": "On"})
	}))
	t.Cleanup(s.Close)
	return s
}

// everything calls all methods of the driver and returns the first error.
func everything(ctx context.Context, d *driver) error {
	_, err := d.Identify(ctx)
	_, err2 := d.PowerState(ctx)
	_, err3 := d.Boot(ctx)
	for _, e := range []error{
		err2, err3, d.SetBoot(ctx, bmc.Boot{Device: bmc.PXE}), d.Power(ctx, bmc.On), d.Power(ctx, bmc.ForceOff), d.Close(),
	} {
		if err == nil {
			err = e
		}
	}
	return err
}

func TestForeignLinks(t *testing.T) {
	other := newBystander(t)
	host := strings.TrimPrefix(other.URL, "https://")
	for _, evil := range []string{
		"@" + host + "/x", ".evil/x", ":6385/v1/nodes", other.URL + "/x", "//" + host + "/x", `\\` + host + "/x", "/\r\nHost: evil/x", "?x", "",
	} {
		for _, where := range []string{"member", "action", "settings", "nic", "manager", "session", "action info"} {
			t.Run(where+" "+evil, func(t *testing.T) {
				b := newFakeBMC(t)
				b.answer = func(w http.ResponseWriter, r *http.Request) bool {
					p := strings.TrimSuffix(r.URL.Path, "/")
					b.mu.Lock()
					defer b.mu.Unlock()
					switch {
					case p == "/redfish/v1" && where == "session":
						doc := b.rootDoc()
						doc["Links"] = map[string]any{"Sessions": ref(evil)}
						reply(w, doc)
					case p == "/redfish/v1/Systems" && where == "member":
						reply(w, members(evil))
					case r.Method == http.MethodGet && p == systemPath:
						doc := b.systemDoc()
						switch where {
						case "action":
							doc["Actions"] = map[string]any{"#ComputerSystem.Reset": map[string]any{"target": evil}}
						case "action info":
							doc["Actions"] = map[string]any{"#ComputerSystem.Reset": map[string]any{"@Redfish.ActionInfo": evil}}
						case "settings":
							doc["@Redfish.Settings"] = map[string]any{"SettingsObject": ref(evil)}
						case "nic":
							doc["EthernetInterfaces"] = ref(evil)
						case "manager":
							doc["Links"] = map[string]any{"ManagedBy": []any{ref(evil)}}
						}
						reply(w, doc)
					default:
						return false
					}
					return true
				}
				_ = everything(t.Context(), b.open(t))
				if n := other.hits.Load(); n != 0 {
					t.Fatalf("the other server was called %d times", n)
				}
			})
		}
	}
}

func TestRedirects(t *testing.T) {
	other := newBystander(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, what := range []string{"GET " + systemPath, "POST /redfish/v1/SessionService/Sessions", "PATCH " + systemPath, "POST " + systemPath + "/Actions/ComputerSystem.Reset"} {
			t.Run(fmt.Sprint(status, " ", what), func(t *testing.T) {
				b := newFakeBMC(t)
				b.answer = func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method+" "+r.URL.Path != what {
						return false
					}
					http.Redirect(w, r, other.URL+r.URL.Path, status)
					return true
				}
				if err := everything(t.Context(), b.open(t)); err == nil {
					t.Error("a redirect to another host was followed, or taken for an answer")
				}
				if n := other.hits.Load(); n != 0 {
					t.Fatalf("the other server was called %d times", n)
				}
			})
		}
	}
}

func TestRedirectsOnTheController(t *testing.T) {
	for _, tt := range []struct {
		method string
		status int
		ok     bool
	}{
		{"GET", 301, true},
		{"GET", 308, true},
		{"POST", 308, true},
		{"POST", 307, true},
		{"POST", 302, false}, // would become a GET, and look like a success
		{"POST", 303, false},
	} {
		t.Run(fmt.Sprint(tt.method, tt.status), func(t *testing.T) {
			b := newFakeBMC(t)
			b.answer = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != tt.method || strings.HasSuffix(r.URL.Path, "/") || strings.HasSuffix(r.URL.Path, "Sessions") {
					return false
				}
				http.Redirect(w, r, r.URL.Path+"/", tt.status)
				return true
			}
			err := b.open(t).Power(t.Context(), bmc.On)
			if tt.ok != (err == nil) || tt.ok != (b.power == "On") {
				t.Errorf("got %v and power %s, want success: %v", err, b.power, tt.ok)
			}
		})
	}
}

func TestHostileBodies(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := io.CopyN(z, zeros{}, 128<<20); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		write func(w http.ResponseWriter)
		fail  string
	}{
		{"gzip bomb", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}, "larger than"},
		{"endless", func(w http.ResponseWriter) { _, _ = io.Copy(w, zeros{}) }, "larger than"},
		{"deep", func(w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Repeat(`{"Boot":`, 200_000)) }, "no Redfish resource"},
		{"NaN", func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"PowerState":NaN}`) }, "no Redfish resource"},
		{"HTML", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html><h1>Welcome</h1>") }, "no Redfish resource"},
		{"empty", func(http.ResponseWriter) {}, "no Redfish resource"},
		{"a list", func(w http.ResponseWriter) { _, _ = io.WriteString(w, `[1,2]`) }, "no Redfish resource"},
		{"HTML error (R-14)", func(w http.ResponseWriter) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, "<html>Bad\x00 \xff "+strings.Repeat("x", 1<<20))
		}, "400 Bad Request: <html>Bad"},
		{"error without code (R-14)", func(w http.ResponseWriter) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"error":"no"}`)
		}, "400 Bad Request"},
		{"the password in an error", func(w http.ResponseWriter) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, "bad "+testPassword+" and "+basicHeader(testUser, testPassword)+" and token-1")
		}, "400 Bad Request: bad ****** and ****** and ******"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newFakeBMC(t)
			b.answer = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == systemPath {
					tt.write(w)
				}
				return r.URL.Path == systemPath
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := b.open(t).PowerState(t.Context())
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tt.fail) {
				t.Errorf("got %.300v, want %q", err, tt.fail)
			}
			if len(fmt.Sprint(err)) > 4096 {
				t.Errorf("the error has %d bytes", len(fmt.Sprint(err)))
			}
			if grown := int64(after.Sys) - int64(before.Sys); grown > 64<<20 {
				t.Errorf("memory grew by %d MiB (H5)", grown>>20)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestSlowBodyEndsAtDeadline(t *testing.T) {
	b := newFakeBMC(t)
	b.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != systemPath {
			return false
		}
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := b.open(t).PowerState(ctx)
	if err == nil || ctx.Err() == nil {
		t.Errorf("got %v before the deadline", err)
	}
}

// TestLinksThatNeverEnd has resources point to each other and a collection of
// ten thousand members.
func TestLinksThatNeverEnd(t *testing.T) {
	b := newFakeBMC(t)
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprint(systemPath, "/EthernetInterfaces/", i)
	}
	b.answer = func(w http.ResponseWriter, r *http.Request) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case r.Method != http.MethodGet:
			return false
		case r.URL.Path == systemPath:
			doc := b.systemDoc()
			doc["@Redfish.Settings"] = map[string]any{"SettingsObject": ref(systemPath)}
			doc["Links"] = map[string]any{"ManagedBy": []any{ref(systemPath)}}
			reply(w, doc)
		case r.URL.Path == systemPath+"/EthernetInterfaces":
			reply(w, members(many...))
		default:
			return false
		}
		return true
	}
	if err := everything(t.Context(), b.open(t)); err != nil {
		t.Error(err)
	}
	if n := len(b.requests); n > 150 {
		t.Errorf("got %d requests, want them bounded", n)
	}
}

func TestNoProxy(t *testing.T) {
	b := newFakeBMC(t)
	if b.open(t).conn.transport.base.Proxy != nil {
		t.Error("requests would go through a proxy (R-27)")
	}
}

// FuzzAnswers feeds answers of a controller to all that decodes them.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once"},"PowerState":"On"}`))
	f.Add([]byte(`{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}],"error":{"@Message.ExtendedInfo":[{"Message":1}]}}`))
	f.Add([]byte(`{"Boot":7,"Actions":[],"Links":null,"SerialNumber":{"a":[1]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		x := &exchange{status: 400, body: raw, header: http.Header{"Location": {string(raw)}}}
		e := newStatusError("GET", "/", x, []string{"secret"})
		if len(e.text) > maxErrorText+3 {
			t.Errorf("error text of %d bytes", len(e.text))
		}
		if p := sessionPath(x); p != "" && p[0] != '/' {
			t.Errorf("session path %q", p)
		}
		for _, p := range decodeAll(raw) {
			if p != "" && p[0] != '/' {
				t.Errorf("link %q", p)
			}
		}
	})
}

// decodeAll decodes raw as each resource and returns the links it found.
func decodeAll(raw []byte) []string {
	var s system
	var c collection
	var r root
	for _, v := range []any{&s, &c, &r} {
		if json.Unmarshal(raw, v) != nil {
			return nil
		}
	}
	_ = s.Boot.v.boot()
	_ = powerState(&s)
	for _, o := range []profile{{}, {clearKeepsPXE: true, cdromByUSBFirst: true}} {
		_, _ = overrides(bmc.Boot{Device: bmc.CDROM, Persistent: true}, s.Boot.v, o)
		_, _ = overrides(bmc.Boot{}, s.Boot.v, o)
	}
	return append(c.paths(maxLinks), s.EthernetInterfaces.path(), s.Settings.v.SettingsObject.path(), r.Systems.path(), r.Links.v.Sessions.path())
}

// selfSigned makes a certificate that no one knows.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: leaf}
}
