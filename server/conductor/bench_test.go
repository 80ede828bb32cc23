package conductor

import (
	"runtime"
	"testing"

	"golang.org/x/sync/errgroup"

	"bessemer/store"
)

// BenchmarkDeploy deploys b.N machines at once, each with an agent that
// speaks real HTTP over TLS and writes for no time, on a store that waits for
// the disk. What it measures is what the appliance adds to the writing.
func BenchmarkDeploy(b *testing.B) {
	var commits uint64
	db, err := store.Open(b.TempDir(), store.Options{Fault: func(n uint64, _ store.Moment) error { commits = n; return nil }})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	k := newRack(b, db, b.N)
	k.start()
	b.ResetTimer()
	begun := commits
	var clients errgroup.Group
	clients.SetLimit(16)
	for _, node := range k.nodes {
		clients.Go(func() error { return k.Provision(b.Context(), node, ProvisionRequest{Target: "active"}) })
	}
	if err := clients.Wait(); err != nil {
		b.Fatal(err)
	}
	for _, node := range k.nodes {
		k.awaitState(node, store.Active)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deploys/s")
	b.ReportMetric(float64(commits-begun)/float64(b.N), "commits/op")
	b.ReportMetric(float64(db.LastMessage())/float64(b.N), "messages/op")
	k.stop()
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

// BenchmarkWaiting has b.N nodes wait for their agents, and tells what memory
// and how many goroutines that takes: the enrolled node, its run, the
// conductor's knowledge of both, the store's cache, a timer.
func BenchmarkWaiting(b *testing.B) {
	db, err := store.Open(b.TempDir(), store.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	before := inUse()
	k := newRack(b, db, b.N, func(c *Config) { c.MaxBoots = b.N })
	for _, m := range k.machines {
		m.deaf = true
	}
	k.start()
	for _, node := range k.nodes {
		k.provision(node, "active")
	}
	for _, node := range k.nodes {
		k.await(node, "to wait", func(n *store.Node) bool { return n.ProvisionState == store.DeployWait })
	}
	if err := db.Flush(); err != nil {
		b.Fatal(err)
	}
	after := inUse()
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "heap-bytes/node")
	b.ReportMetric(float64(after.StackInuse-before.StackInuse)/float64(b.N), "stack-bytes/node")
	b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
	k.stop()
}

func inUse() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}
