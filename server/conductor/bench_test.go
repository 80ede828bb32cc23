package conductor

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// BenchmarkDeploy deploys b.N machines at once, each with an agent that
// speaks real HTTP over TLS and writes for no time, on a store that waits for
// the disk. What it measures is what the appliance adds to the writing.
func BenchmarkDeploy(b *testing.B) {
	db, err := store.Open(b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "img"), testImage, 0o600); err != nil {
		b.Fatal(err)
	}
	machines := map[string]*machine{}
	types := bmc.Types{"test": testType(nil, func(t bmc.Target) *machine { return machines[t.Node] })}
	var c *Conductor
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { testAPI(c).ServeHTTP(w, r) }))
	defer server.Close()
	for i := range b.N {
		uuid := fmt.Sprintf("11111111-2222-4333-8444-%012d", i)
		mac := fmt.Sprintf("52:54:00:%02x:%02x:%02x", i>>16&255, i>>8&255, i&255)
		machines[uuid] = newMachine(mac, server.URL, func(string, ...any) {})
		machines[uuid].writeTime = 0
		addNode(b, db, uuid, fmt.Sprintf("21111111-2222-4333-8444-%012d", i), mac, store.Available, func(n *store.Node) { n.Name = "" })
		defer machines[uuid].stop()
	}
	c = New(testConfig(db, types, dir, server.URL))
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	b.ResetTimer()
	for uuid := range machines {
		if err := c.Provision(ctx, uuid, ProvisionRequest{Target: "active"}); err != nil {
			b.Fatal(err)
		}
	}
	for uuid := range machines {
		for {
			n, err := c.node(uuid)
			if err != nil || n.ProvisionState == store.DeployFailed {
				b.Fatalf("%+v %v", n, err)
			}
			if n.ProvisionState == store.Active {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deploys/s")
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkBoot is the answer to one packet of a boot server.
func BenchmarkBoot(b *testing.B) {
	n := bootNode{uuid: testNode, macs: []string{testMAC}}
	x := newIndex()
	x.nodes[n.uuid], x.byMAC[testMAC] = &n, n.uuid
	mac := []byte{0x52, 0x54, 0, 0, 0, 1}
	b.ReportAllocs()
	for b.Loop() {
		if found, ok := x.find(mac); !ok || nextBoot(found).Action != "local" {
			b.Fatal("not found")
		}
	}
}
