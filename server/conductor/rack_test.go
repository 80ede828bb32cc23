package conductor

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// A rack is many machines under one conductor.
type rack struct {
	*Conductor
	t        testing.TB
	machines map[string]*machine // by node
	nodes    []string
	booting  gauge
	writing  gauge
	stop     func()
}

// newRack enrolls n machines. The conductor does not run yet.
func newRack(t testing.TB, db *store.DB, n int, change ...func(*Config)) *rack {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "img"), testImage, 0o600); err != nil {
		t.Fatal(err)
	}
	k := &rack{t: t, machines: map[string]*machine{}, stop: func() {}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { testAPI(k.Conductor).ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	for i := range n {
		uuid := fmt.Sprintf("11111111-2222-4333-8444-%012d", i)
		mac := fmt.Sprintf("52:54:00:%02x:%02x:%02x", i>>16&255, i>>8&255, i&255)
		m := newMachine(mac, server.URL, func(string, ...any) {})
		m.booting, m.writing, m.writeTime = &k.booting, &k.writing, 0
		k.machines[uuid], k.nodes = m, append(k.nodes, uuid)
		addNode(t, db, uuid, fmt.Sprintf("21111111-2222-4333-8444-%012d", i), mac, store.Available, func(n *store.Node) { n.Name = "" })
		t.Cleanup(m.stop)
	}
	types := bmc.Types{"test": testType(nil, func(t bmc.Target) *machine { return k.machines[t.Node] })}
	k.Conductor = New(testConfig(db, types, dir, server.URL, change...))
	t.Cleanup(func() { k.stop() })
	return k
}

func (k *rack) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	k.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			k.t.Errorf("conductor: %v", err)
		}
	})
}

// restart ends the conductor and starts another one on the same store.
func (k *rack) restart() {
	k.stop()
	k.Conductor = New(k.config)
	k.start()
}

func (k *rack) provision(node, target string) {
	k.t.Helper()
	if err := k.Provision(k.t.Context(), node, ProvisionRequest{Target: target}); err != nil {
		k.t.Fatalf("%s: %v", target, err)
	}
}

func (k *rack) await(node, what string, ok func(*store.Node) bool) *store.Node {
	k.t.Helper()
	var n *store.Node
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		var err error
		if n, err = k.node(node); err != nil {
			k.t.Fatal(err)
		}
		if ok(n) {
			return n
		}
		if n.Run == 0 && n.LastError != "" {
			break
		}
	}
	k.t.Fatalf("node %s never got %s: it is %q (%s), run %d", node, what, n.ProvisionState, n.LastError, n.Run)
	return nil
}

func (k *rack) awaitState(node string, s store.ProvisionState) *store.Node {
	k.t.Helper()
	return k.await(node, string(s), func(n *store.Node) bool { return n.ProvisionState == s && n.Run == 0 })
}

// A gauge remembers the most that it has shown.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

func (g *gauge) add(n int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
}

func (g *gauge) peak() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}
