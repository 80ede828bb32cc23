//go:build linux

package main_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bessemer/store"
)

const (
	benchNodes   = 1000
	portsPerNode = 4 // so that no port exceeds what DHCP grants to one
	apiClients   = 8
)

// Ironic 21.4.4 on Debian 12 with fake-hardware on two cores, each figure the
// best of three set-ups: four API workers, a conductor and MariaDB; one process
// and MariaDB; one process and SQLite.
const ironic = "Ironic 21.4, measured elsewhere"

// benchAPI measures the appliance as a whole and its API, and leaves it
// running, with nodes.
func benchAPI(t *testing.T, b *bench, r *benchRack) {
	elsewhere := func(subject, unit string, less bool, peer float64, how string, ours ...float64) {
		b.add(row{Subject: subject, Unit: unit, Ours: ours, Peer: []float64{peer}, PeerName: ironic, Less: less, How: how})
	}
	var cold []float64
	for i := range *benchRounds {
		if i > 0 {
			r.app.proc.Kill()
		}
		r.furnish(t)
		cold = append(cold, r.app.launch(t).Seconds())
	}
	elsewhere("start to first 200", "s", true, 2.0, "process start to GET /v1, new data directory, boot servers too", cold...)
	time.Sleep(2 * time.Second) // what starts does not count as idle
	elsewhere("memory, idle", "MB", true, 137, "resident, all parts running", rss(t, r.app.proc.Pid()))

	rate, p50 := r.enroll(t)
	elsewhere("POST /v1/nodes", "/s", false, 95, fmt.Sprintf("%d clients, %d nodes, durable; p50 %.1f ms against 83", apiClients, benchNodes, p50), rate)
	list, size := r.latency(t, 20, "/v1/nodes?limit=1000")
	elsewhere("GET 1000 nodes, p50", "ms", true, 195, fmt.Sprintf("/v1/nodes?limit=1000: %.2f MB, the peer's 0.37", mega(size)), list)
	detail, size := r.latency(t, 10, "/v1/nodes/detail?limit=1000")
	elsewhere("GET 1000 nodes in detail, p50", "ms", true, 443, fmt.Sprintf("/v1/nodes/detail?limit=1000: %.2f MB, the peer's 2.7", mega(size)), detail)
	elsewhere("GET one node", "/s", false, 256, fmt.Sprintf("%d clients, Basic authentication", apiClients), r.getOne(t))
	elsewhere("memory, 1000 nodes", "MB", true, 148, "resident, after these requests", rss(t, r.app.proc.Pid()))

	var stop, warm []float64
	for range *benchRounds {
		begun := time.Now()
		if err := r.app.proc.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-r.app.proc.Ended()
		stop = append(stop, time.Since(begun).Seconds())
		if r.macs == nil {
			r.addPorts(t)
		}
		warm = append(warm, r.app.launch(t).Seconds())
	}
	b.add(row{Subject: "stop", Unit: "s", Ours: stop, PeerName: "not ended after 15 s: " + ironic, Less: true, How: "SIGTERM to the end of the process, 1000 nodes"})
	elsewhere("start to first 200, 1000 nodes", "s", true, 2.0, fmt.Sprintf("and %d ports; the peer with none", benchNodes*portsPerNode), warm...)
	time.Sleep(2 * time.Second)
	elsewhere("memory, 1000 nodes, idle", "MB", true, 148, "resident, after a restart", rss(t, r.app.proc.Pid()))
}

// enroll creates the nodes through the API, and returns nodes per second and
// the median time of a request in ms.
func (r *benchRack) enroll(t *testing.T) (rate, p50 float64) {
	t.Helper()
	r.nodes = make([]string, benchNodes)
	times := make([]float64, benchNodes)
	begun := time.Now()
	parallel(t, apiClients, benchNodes, func(i int) error {
		var made struct{ UUID string }
		at := time.Now()
		err := r.app.client.Call(t.Context(), http.MethodPost, "/v1/nodes", map[string]any{
			"name": fmt.Sprintf("node-%04d", i), "driver": "fake-hardware",
			"properties": map[string]any{"cpus": 64, "memory_mb": 262144, "local_gb": 960, "cpu_arch": "x86_64", "capabilities": "boot_mode:uefi"},
			"extra":      map[string]any{"rack": fmt.Sprint(i / 40), "position": fmt.Sprint(i % 40)},
		}, &made)
		r.nodes[i], times[i] = made.UUID, time.Since(at).Seconds()*1000
		return err
	})
	return benchNodes / time.Since(begun).Seconds(), median(times)
}

// latency is the median time in ms of a request whose whole answer is read, and
// the answer's size in bytes.
func (r *benchRack) latency(t *testing.T, n int, path string) (p50 float64, size int64) {
	t.Helper()
	var times []float64
	for range n {
		begun := time.Now()
		resp, err := r.app.client.Do(t.Context(), http.MethodGet, path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		size, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
		times = append(times, time.Since(begun).Seconds()*1000)
	}
	return median(times), size
}

func (r *benchRack) getOne(t *testing.T) float64 {
	t.Helper()
	const requests = 4000
	begun := time.Now()
	parallel(t, apiClients, requests, func(i int) error {
		return r.app.client.Get(t.Context(), "/v1/nodes/"+r.nodes[i%len(r.nodes)], nil)
	})
	return requests / time.Since(begun).Seconds()
}

// addPorts gives each node its ports, in the store of the stopped appliance.
func (r *benchRack) addPorts(t *testing.T) {
	t.Helper()
	db, err := store.Open(r.app.dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *store.Tx) error {
		r.macs = nil
		for i := range benchNodes * portsPerNode {
			mac := fmt.Sprintf("52:54:00:67:%02x:%02x", i>>8, i&0xff)
			r.macs = append(r.macs, mac)
			p := &store.Port{
				UUID: fmt.Sprintf("6b1d8a52-0000-4000-8000-%012x", i), NodeUUID: r.nodes[i/portsPerNode], Address: mac,
				PXEEnabled: true, CreatedAt: time.Now(),
			}
			if err := store.Ports.Put(tx, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// parallel calls do with 0 to n-1, so many at a time.
func parallel(t *testing.T, clients, n int, do func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// rss is the resident memory of a process in MB.
func rss(t *testing.T, pid int) float64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib * 1024 / 1e6
		}
	}
	t.Fatalf("no VmRSS in the status of process %d", pid)
	return 0
}
