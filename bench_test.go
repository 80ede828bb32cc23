//go:build linux

package main_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// The benchmarks measure the built binaries beside the programs that people
// use today, in the same run and in turns, since absolute figures drift. They
// assert nothing about time; see make bench.
var (
	benchPeers  = flag.Bool("bench-peers", false, "measure, beside a peer where there is one")
	benchRounds = flag.Int("bench-rounds", 3, "how often each pair is measured")
	benchSize   = flag.Int64("bench-size", 1024, "size of the image that is written, MiB")
	benchPeriod = flag.Duration("bench-period", time.Second, "how long one load on a server lasts")
)

// A bench gathers what is measured.
type bench struct {
	rows []row
	// Steps of the deployment that was measured.
	steps []stepTime
}

// A row is a line of the table: one figure of ours, beside a peer's.
type row struct {
	Subject string `json:"subject"`
	Unit    string `json:"unit"`
	// Ours and Peer hold a figure for each round; those of one round were
	// measured one right after the other.
	Ours     []float64 `json:"ours,omitempty"`
	Peer     []float64 `json:"peer,omitempty"`
	PeerName string    `json:"peer_name,omitempty"`
	Less     bool      `json:"less_is_better"`
	// Ratio is how many times better ours is; 0: there is none.
	Ratio float64 `json:"ratio,omitempty"`
	How   string  `json:"how"`
}

func (b *bench) add(r row) {
	r.Ratio = ratio(r)
	b.rows = append(b.rows, r)
}

func TestBench(t *testing.T) {
	if !*benchPeers {
		t.Skip("benchmarks run with -bench-peers (make bench)")
	}
	if _, err := os.Stat("bin/bessemer"); err != nil {
		t.Fatalf("%v; make bench builds it", err)
	}
	b := &bench{}
	begun := time.Now()
	subject := func(name string, measure func(*testing.T, *bench)) {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if t.Skipped() || t.Failed() {
					b.add(row{Subject: name, How: "not measured, the reason is above"})
				}
			}()
			measure(t, b)
		})
	}
	subject("ramdisk", benchRamdisk)
	subject("image write", benchImages)
	subject("services", benchServices)
	subject("deploy", benchDeploy)
	subject("isolation", benchIsolation)
	subject("scale", benchScale)
	b.print(os.Stdout)
	b.save(t, time.Since(begun))
}

// save writes all figures of all rounds.
func (b *bench) save(t *testing.T, took time.Duration) {
	t.Helper()
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // only said if known
	all := struct {
		At      time.Time  `json:"at"`
		Took    float64    `json:"took_s"`
		CPUs    int        `json:"cpus"`
		Kernel  string     `json:"kernel"`
		Go      string     `json:"go"`
		Version string     `json:"version"`
		Rounds  int        `json:"rounds"`
		Rows    []row      `json:"rows"`
		Steps   []stepTime `json:"deploy_steps,omitempty"`
	}{
		time.Now().UTC(), took.Seconds(), runtime.NumCPU(), strings.TrimSpace(string(kernel)), runtime.Version(),
		productVersion(), *benchRounds, b.rows, b.steps,
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const dir = "e2e-artifacts"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bench.json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("every round's figures are in %s/bench.json; measuring took %.0f s", dir, took.Seconds())
}

func productVersion() string {
	out, err := exec.Command("bin/bessemer", "--version").Output()
	if err != nil {
		return "unknown: " + err.Error()
	}
	return strings.TrimSpace(string(out))
}

// pair measures ours and the peer in turns, the one that goes first changing,
// so that both meet the same drift of the machine. A nil peer is not measured.
func pair(ours, peer func() float64) (a, b []float64) {
	for i := range *benchRounds {
		if i%2 == 0 || peer == nil {
			a = append(a, ours())
		}
		if peer == nil {
			continue
		}
		b = append(b, peer())
		if i%2 == 1 {
			a = append(a, ours())
		}
	}
	return a, b
}

// program finds the program of a peer, or says in the table why the peer is
// not measured.
func program(name, debian string) (path, missing string) {
	for _, dir := range []string{"", "/usr/sbin/", "/usr/local/sbin/"} {
		if path, err := exec.LookPath(dir + name); err == nil {
			return path, ""
		}
	}
	return "", name + " not installed (Debian package " + debian + ")"
}

func median(s []float64) float64 {
	if len(s) == 0 {
		return 0
	}
	s = slices.Sorted(slices.Values(s))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// ratio is how many times better ours is: the median of the rounds' ratios.
func ratio(r row) float64 {
	if len(r.Ours) == 0 || len(r.Peer) == 0 {
		return 0
	}
	var all []float64
	for i := range max(len(r.Ours), len(r.Peer)) {
		ours, peer := r.Ours[min(i, len(r.Ours)-1)], r.Peer[min(i, len(r.Peer)-1)]
		if r.Less {
			ours, peer = peer, ours
		}
		if peer > 0 {
			all = append(all, ours/peer)
		}
	}
	return median(all)
}
