package conductor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"bessemer/agent/fetch"
	"bessemer/agent/wire"
	"bessemer/bmc"
	"bessemer/pxe"
	"bessemer/pxe/images"
	"bessemer/store"
	"bessemer/store/storetest"
)

var update = flag.Bool("update", false, "rewrite testdata")

const (
	testNode = "11111111-2222-4333-8444-555555555555"
	testPort = "21111111-2222-4333-8444-555555555555"
	testMAC  = "52:54:00:00:00:01"
)

var testImage = []byte(strings.Repeat("the image ", 1000))

// testImages is an image store with one image, which lies elsewhere too.
type testImages struct{ dir, elsewhere string }

func (s testImages) Resolve(_ context.Context, info map[string]any) (images.Resolved, error) {
	sum := sha256.Sum256(testImage)
	switch source, _ := info["image_source"].(string); source {
	case "debian":
		return images.Resolved{
			Image: &store.Image{UUID: "img"}, Format: "raw", Size: int64(len(testImage)),
			HashAlgo: "sha256", HashValue: hex.EncodeToString(sum[:]),
		}, nil
	case "wrong sum":
		return images.Resolved{Image: &store.Image{UUID: "img"}, HashAlgo: "sha256", HashValue: strings.Repeat("0", 64)}, nil
	case "elsewhere":
		return images.Resolved{URL: s.elsewhere, Format: "raw", HashAlgo: "sha256", HashValue: hex.EncodeToString(sum[:])}, nil
	default:
		return images.Resolved{}, fmt.Errorf("image_source %q: there is no such image: %w", source, store.ErrNotFound)
	}
}

func (s testImages) OpenFile(string) (*os.File, error) { return os.Open(filepath.Join(s.dir, "img")) }

// A world is a conductor with one node, and the machine that the node is.
type world struct {
	*Conductor
	t       testing.TB
	db      *store.DB
	m       *machine
	seen    *worldJournal
	trouble atomic.Pointer[func(method string) error]
	stop    func()
}

// newWorld starts a conductor; change may alter its configuration.
func newWorld(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, seen: &worldJournal{}}
	w.db = storetest.Open(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "img"), testImage, 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		testAPI(w.Conductor).ServeHTTP(rw, r)
	}))
	w.m = newMachine(testMAC, "http://"+server.Listener.Addr().String(), w.seen.add)
	types := bmc.Types{"test": testType(func(method string) error {
		if fn := w.trouble.Load(); fn != nil {
			return (*fn)(method)
		}
		return nil
	}, func(bmc.Target) *machine { return w.m })}
	w.Conductor = New(testConfig(w.db, types, dir, w.m.api, change...))
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(w.m.stop)
	w.start()
	return w
}

func testConfig(db *store.DB, types bmc.Types, dir, api string, change ...func(*Config)) Config {
	config := Config{
		DB: db, Types: types, Images: testImages{dir: dir}, BaseURL: api, Hostname: "conductor", Dir: dir, Log: zerolog.Nop(),
		BMC: bmc.NewPool(types, NewRecorder(db, zerolog.Nop()), bmc.PoolOptions{
			PollMin: 5 * time.Millisecond, PollMax: 10 * time.Millisecond, Settle: 50 * time.Millisecond, PowerWait: 500 * time.Millisecond,
		}),
		Policy:   fetch.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Timeouts: Timeouts{Backoff: 10 * time.Millisecond, PowerSync: -1, StoreRetry: 50 * time.Millisecond, Claim: time.Second, Look: 20 * time.Millisecond},
	}
	for _, fn := range change {
		fn(&config)
	}
	return config
}

func testType(trouble func(string) error, open func(bmc.Target) *machine) bmc.Type {
	return bmc.Type{
		Open: func(t bmc.Target) (bmc.Driver, error) {
			if t.DriverInfo["bad"] != nil {
				return nil, errors.New("bad: must not be set")
			}
			return controller{open(t), trouble}, nil
		},
		Interfaces: map[string][]string{"deploy": {"direct", "fake"}, "power": {"test"}, "boot": {"ipxe"}, "console": {"no-console"}},
	}
}

// start runs the conductor until the test ends, or stop.
func (w *world) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("conductor: %v", err)
		}
	}
	w.t.Cleanup(func() { w.stop() })
}

// testAPI is what server/api and pxe/httpd do on the provisioning listener,
// arrows included.
func testAPI(c *Conductor) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /test/boot", func(w http.ResponseWriter, r *http.Request) {
		mac, _ := net.ParseMAC(r.URL.Query().Get("mac"))
		b := c.Boot(r.Context(), pxe.Machine{MAC: mac, Arch: pxe.X64, What: "DHCP DISCOVER", VendorClass: "PXEClient:Arch:00007"})
		ctx := store.WithScope(r.Context(), store.Scope{Trace: b.Trace, Node: b.Node, Run: b.Run})
		reply := store.Send(ctx, c.db, store.Message{From: store.NodeP, To: store.DHCP, Label: store.LabelDHCPRequest})
		reply(nil, nil)
		_ = json.NewEncoder(w).Encode(map[string]any{"Action": b.Action})
	})
	mux.HandleFunc("GET /v1/lookup", func(w http.ResponseWriter, r *http.Request) {
		runs := runsAgent(c, r.URL.Query().Get("addresses"))
		l, err := c.Lookup(r.Context(), strings.Split(r.URL.Query().Get("addresses"), ","), "", r.RemoteAddr, true)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		ctx := store.WithScope(r.Context(), c.Scope(l.Node.UUID))
		if runs {
			c.db.Record(ctx, store.Message{From: store.NodeP, To: store.NodeP, Kind: store.Self, Label: store.LabelRunsAgent})
		}
		seq := c.db.Record(ctx, store.Message{From: store.NodeP, To: store.API, Kind: store.Request, Label: store.LabelLookup})
		c.db.Record(ctx, store.Message{From: store.API, To: store.NodeP, Kind: store.Reply, Label: store.LabelPassUUID, ReplyTo: seq})
		_ = json.NewEncoder(w).Encode(l)
	})
	mux.HandleFunc("POST /v1/heartbeat/{node}", func(w http.ResponseWriter, r *http.Request) {
		var h wire.Heartbeat
		_ = json.NewDecoder(r.Body).Decode(&h)
		ctx := store.WithScope(r.Context(), c.Scope(r.PathValue("node")))
		c.db.Record(ctx, store.Message{From: store.NodeP, To: store.API, Kind: store.Cast, Label: store.LabelHeartbeat})
		if err := c.Heartbeat(r.Context(), r.PathValue("node"), r.RemoteAddr, h); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("GET /boot/file/{token}/{name}", func(w http.ResponseWriter, r *http.Request) {
		f, err := c.File(r.Context(), r.PathValue("token"), r.PathValue("name"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		defer f.Close()
		label := map[string]string{"image": store.LabelDownloadImage, "configdrive": store.LabelDownloadDrive}[r.PathValue("name")]
		ctx := store.WithScope(r.Context(), store.Scope{Trace: f.Trace, Node: f.Node, Run: f.Run})
		reply := store.Send(ctx, c.db, store.Message{From: store.NodeP, To: store.HTTPStore, Label: label})
		http.ServeContent(w, r, "", f.Modified, f)
		reply(nil, nil)
	})
	return mux
}

// runsAgent reports whether a lookup is the first of a boot.
func runsAgent(c *Conductor, mac string) bool {
	hw, _ := net.ParseMAC(mac)
	known, _ := c.index.find(hw)
	n, err := c.node(known.uuid)
	return err == nil && n.Agent.Token == ""
}

// enroll adds the node and its port.
func (w *world) enroll(state store.ProvisionState, change ...func(*store.Node)) {
	w.t.Helper()
	addNode(w.t, w.db, testNode, testPort, testMAC, state, change...)
	w.NodeChanged(testNode)
}

func addNode(t testing.TB, db *store.DB, uuid, port, mac string, state store.ProvisionState, change ...func(*store.Node)) {
	t.Helper()
	n := &store.Node{
		UUID: uuid, Name: "node-" + uuid[:8], Driver: "test", ProvisionState: state, CreatedAt: time.Now(),
		InstanceInfo: map[string]any{"image_source": "debian"}, Properties: map[string]any{"capabilities": "boot_mode:uefi"},
	}
	for _, fn := range change {
		fn(n)
	}
	err := db.Update(func(tx *store.Tx) error {
		return errors.Join(store.Nodes.Put(tx, n),
			store.Ports.Put(tx, &store.Port{UUID: port, NodeUUID: uuid, Address: mac, PXEEnabled: true}))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) get() *store.Node {
	w.t.Helper()
	n, err := w.node(testNode)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// run returns the run with an ID.
func (w *world) run(id uint64) *store.Run {
	w.t.Helper()
	var r *store.Run
	err := w.db.View(func(tx *store.Tx) (err error) {
		r, err = store.Runs.Get(tx, store.RunKey(id))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// await waits until the node is as wanted. It fails the test only when the
// test's own time is over, or after far longer than anything takes.
func (w *world) await(what string, ok func(*store.Node) bool) *store.Node {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		if n := w.get(); ok(n) {
			return n
		}
		time.Sleep(2 * time.Millisecond)
	}
	n := w.get()
	w.t.Fatalf("node never got %s: it is %q (%s), run %d; seen:\n%s", what, n.ProvisionState, n.LastError, n.Run, strings.Join(w.seen.all(), "\n"))
	return nil
}

// settled waits until nothing runs on the node any more.
func (w *world) settled() *store.Node {
	w.t.Helper()
	return w.await("to rest", func(n *store.Node) bool { return n.Run == 0 })
}

func (w *world) provision(target string, change ...func(*ProvisionRequest)) {
	w.t.Helper()
	r := ProvisionRequest{Target: target}
	for _, fn := range change {
		fn(&r)
	}
	if err := w.Provision(w.t.Context(), testNode, r); err != nil {
		w.t.Fatalf("%s: %v", target, err)
	}
}

func (w *world) wantState(n *store.Node, want store.ProvisionState) {
	w.t.Helper()
	if n.ProvisionState != want {
		w.t.Fatalf("node is %q (%s), want %q; seen:\n%s", n.ProvisionState, n.LastError, want, strings.Join(w.seen.all(), "\n"))
	}
}

// diagram prints the arrows of all runs as the lines of a sequence diagram.
// Replies are lines of their own where they say something else than the
// request; polls and heartbeats are printed once.
func diagram(t testing.TB, db *store.DB) string {
	t.Helper()
	ms, err := db.MessagesAfter(0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	beats, sent := 0, 0
	labels := map[uint64]string{}
	for _, m := range ms {
		labels[m.Seq] = m.Label
		arrow := "->"
		switch {
		case m.Kind == store.Reply && labels[m.ReplyTo] != m.Label:
			arrow = "-->"
		case m.Kind == store.Request, m.Kind == store.Cast, m.Kind == store.Self:
		default:
			continue
		}
		if m.Label == store.LabelHeartbeat && m.From != store.API {
			continue
		}
		if m.Label == store.LabelHeartbeat {
			if beats++; beats > 1 {
				continue
			}
		}
		if m.Label == store.LabelPowerState {
			continue
		}
		line := fmt.Sprintf("%s %s %s: %s", m.From, arrow, m.To, m.Label)
		switch {
		case m.Label == store.LabelContinueDeploy:
			sent = len(lines) + 1
		case m.To == store.HTTPStore && m.From == store.NodeP: // goes on beside the polls
			lines = slices.Insert(lines, sent, line)
			sent++
			continue
		}
		lines = append(lines, line)
	}
	return strings.Join(fold(lines), "\n") + "\n"
}

// fold drops lines that repeat the last one, or the last two.
func fold(lines []string) (out []string) {
	for _, l := range lines {
		n := len(out)
		if n > 0 && out[n-1] == l {
			continue
		}
		if n > 2 && out[n-2] == l && out[n-3] == out[n-1] {
			out = out[:n-1]
			continue
		}
		out = append(out, l)
	}
	return out
}

// withoutPolls leaves the polls of long commands out of a diagram, but for the
// last.
func withoutPolls(text string) string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.HasSuffix(l, ": "+store.LabelStillWorking) })
	return strings.Join(fold(lines), "\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}

func writeJSON(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func readJSON(r *http.Request, v any) { _ = json.NewDecoder(r.Body).Decode(v) }
