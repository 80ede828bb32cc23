package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"bessemer/agent/fetch"
	"bessemer/agent/hw"
	"bessemer/agent/wire"
)

const (
	nodeUUID  = "2826bbe7-9416-4cb4-9af1-d5a0a09a5f9a"
	testToken = "u5MDFlxyynqrz_3O2quHqZMjGg5GYAS2D8sb_VUvAcQ"
)

// ironic is the server's side: it answers lookups and heartbeats, serves images,
// and sends commands.
type ironic struct {
	t *testing.T
	*httptest.Server
	files   map[string][]byte
	version string // the highest microversion it tells
	node    map[string]any
	config  map[string]any
	early   int                            // lookups that get 404 first
	beats   int                            // heartbeat answers that are 409 first
	change  func(nth int, b []byte) []byte // what the nth answer with a file holds
	gate    chan struct{}                  // if set, image downloads stop here after half of the file

	mu       sync.Mutex
	lookups  []*http.Request
	got      []wire.Heartbeat
	headers  []http.Header
	beat     chan wire.Heartbeat
	requests []string // of files
}

func newIronic(t *testing.T) *ironic {
	s := &ironic{
		t: t, files: map[string][]byte{}, version: "1.82", beat: make(chan wire.Heartbeat, 100),
		node:   map[string]any{"uuid": nodeUUID, "properties": map[string]any{}, "instance_info": map[string]any{}},
		config: map[string]any{"heartbeat_timeout": 300, "agent_token": testToken, "agent_token_required": true},
	}
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/lookup", s.lookup)
	m.HandleFunc("POST /v1/heartbeat/{uuid}", s.heartbeat)
	m.HandleFunc("GET /files/{name}", s.file)
	s.Server = httptest.NewServer(m)
	t.Cleanup(s.Close)
	return s
}

func (s *ironic) lookup(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookups = append(s.lookups, r)
	w.Header().Set("X-OpenStack-Ironic-API-Maximum-Version", s.version)
	if len(s.lookups) <= s.early {
		w.WriteHeader(404)
		io.WriteString(w, `{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Resource could not be found.\", \"debuginfo\": null}"}`)
		return
	}
	json.NewEncoder(w).Encode(map[string]any{"node": s.node, "config": s.config})
}

func (s *ironic) heartbeat(w http.ResponseWriter, r *http.Request) {
	var h wire.Heartbeat
	if err := json.NewDecoder(r.Body).Decode(&h); err != nil || r.PathValue("uuid") != nodeUUID {
		s.t.Errorf("heartbeat for %s: %v", r.PathValue("uuid"), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got, s.headers = append(s.got, h), append(s.headers, r.Header)
	if len(s.got) <= s.beats {
		w.WriteHeader(409)
		return
	}
	w.WriteHeader(202)
	s.beat <- h
}

func (s *ironic) file(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	b, ok := s.files[r.PathValue("name")]
	s.requests = append(s.requests, r.PathValue("name"))
	if s.change != nil {
		b = s.change(len(s.requests), b)
	}
	s.mu.Unlock()
	if !ok {
		w.WriteHeader(404)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", hexSum(b)))
	if s.gate == nil {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	w.Write(b[:len(b)/2])
	w.(http.Flusher).Flush()
	select {
	case <-s.gate:
		w.Write(b[len(b)/2:])
	case <-r.Context().Done():
	}
}

// put serves a file and returns its URL.
func (s *ironic) put(name string, b []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = b
	return s.URL + "/files/" + name
}

// rig is an agent that runs on a fake machine under a fake server.
type rig struct {
	t       *testing.T
	server  *ironic
	machine *hw.Fake
	console *safeBuffer
	config  Config
	first   wire.Heartbeat
	client  *http.Client
	ended   chan error
	stop    context.CancelFunc
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newRig(t *testing.T) *rig {
	dir := t.TempDir()
	r := &rig{t: t, server: newIronic(t), console: &safeBuffer{}, ended: make(chan error, 1)}
	disks := []wire.Disk{
		{Name: "/dev/sda", Model: "FAKE", Serial: "A", Size: 5 << 30},
		{Name: "/dev/sdb", Model: "FAKE", Serial: "B", Size: 6 << 30},
		{Name: "/dev/sr0", Model: "VIRTUAL CD", Size: 1 << 30, ReadOnly: true, Removable: true, VirtualMedia: true},
	}
	files := map[string]string{}
	for _, d := range disks {
		files[d.Name] = filepath.Join(dir, filepath.Base(d.Name))
	}
	r.machine = &hw.Fake{
		Hardware: wire.Inventory{
			Interfaces: []wire.Interface{{Name: "eth0", MACAddress: "52:54:00:AA:BB:CC"}, {Name: "eth1", MACAddress: "52:54:00:aa:bb:cd"}},
			CPU:        wire.CPU{Architecture: "x86_64", Count: 2}, Disks: disks, Memory: wire.Memory{Total: 512 << 20},
		},
		Files: files, Firmware: &hw.FakeEFI{}, LogText: map[string]string{"kmsg": "hello from the kernel\n"},
		OnPowerOff: func() {}, OnReboot: func() {},
	}
	r.config = Config{
		APIURL: r.server.URL, Listen: "127.0.0.1:0", Console: r.console, Version: "1.0", DiskWait: time.Millisecond,
		Policy: fetch.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Logger: zerolog.Nop(),
	}
	return r
}

// start runs the agent until its first heartbeat.
func (r *rig) start() *rig {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	r.stop = cancel
	go func() { r.ended <- Run(ctx, r.config, r.machine) }()
	r.t.Cleanup(func() {
		cancel()
		select {
		case err := <-r.ended:
			if err != nil {
				r.t.Errorf("agent ended with %v", err)
			}
		case <-time.After(10 * time.Second):
			r.t.Error("agent did not end")
		}
	})
	r.first = r.awaitBeat()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(r.first.AgentVerifyCA)) {
		r.t.Fatalf("agent_verify_ca is no certificate: %q", r.first.AgentVerifyCA)
	}
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	r.t.Cleanup(r.client.CloseIdleConnections)
	return r
}

func (r *rig) awaitBeat() wire.Heartbeat {
	r.t.Helper()
	select {
	case h := <-r.server.beat:
		return h
	case err := <-r.ended:
		r.ended <- err
		r.t.Fatalf("agent ended with %v", err)
	case <-time.After(20 * time.Second):
		r.t.Fatal("no heartbeat")
	}
	panic("unreachable")
}

// request sends a request as it is and returns status and body.
func (r *rig) request(method, path string, body any) (int, string) {
	r.t.Helper()
	var b io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		b = strings.NewReader(body)
	default:
		j, err := json.Marshal(body)
		if err != nil {
			r.t.Fatal(err)
		}
		b = bytes.NewReader(j)
	}
	req, err := http.NewRequest(method, r.first.CallbackURL+path, b)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(out)
}

// command sends a command as Ironic does and returns its state.
func (r *rig) command(name string, params map[string]any, wait bool) wire.Command {
	r.t.Helper()
	code, body := r.request("POST", fmt.Sprintf("/v1/commands/?wait=%v&agent_token=%s", wait, testToken), wire.CommandRequest{Name: name, Params: params})
	var c wire.Command
	if err := json.Unmarshal([]byte(body), &c); code != 200 || err != nil {
		r.t.Fatalf("%s: %d %s", name, code, body)
	}
	return c
}

// finish waits for a command that was started without waiting, as Ironic does:
// by the forced heartbeat, then the list of commands.
func (r *rig) finish(id string) wire.Command {
	r.t.Helper()
	for {
		r.awaitBeat()
		for _, c := range r.commands() {
			if c.ID == id && c.Status != wire.Running {
				return c
			}
		}
	}
}

func (r *rig) commands() []wire.Command {
	r.t.Helper()
	code, body := r.request("GET", "/v1/commands/?agent_token="+testToken, nil)
	var cs wire.Commands
	if err := json.Unmarshal([]byte(body), &cs); code != 200 || err != nil {
		r.t.Fatalf("commands: %d %s", code, body)
	}
	return cs.Commands
}

// run starts a command and waits for its end.
func (r *rig) run(name string, params map[string]any) wire.Command {
	r.t.Helper()
	c := r.command(name, params, false)
	if c.Status != wire.Running {
		return c
	}
	return r.finish(c.ID)
}

func (r *rig) writeImage(args map[string]any, node map[string]any) wire.Command {
	r.t.Helper()
	return r.run("deploy.execute_deploy_step", writeStep(args, node))
}

// tryImage is writeImage that waits for the answer instead of a heartbeat,
// which comes at most every 0.3 s.
func (r *rig) tryImage(args map[string]any, node map[string]any) wire.Command {
	r.t.Helper()
	return r.command("deploy.execute_deploy_step", writeStep(args, node), true)
}

func writeStep(args, node map[string]any) map[string]any {
	return map[string]any{
		"step": map[string]any{"interface": "deploy", "step": "write_image", "priority": 80, "args": args},
		"node": node, "ports": []any{}, "deploy_version": stepsVersion,
	}
}

// diskBytes reads n bytes of a disk, from an offset.
func (r *rig) diskBytes(name string, off int64, n int) []byte {
	r.t.Helper()
	f, err := os.Open(r.machine.Files[name])
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, off); err != nil {
		r.t.Fatal(err)
	}
	return b
}
