package prove

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"
)

var (
	long     = flag.Bool("prove", false, "run the long versions (make prove)")
	seedFlag = flag.Uint64("prove-seed", 0, "fixes every random choice; 0: another one each time")
	proveFor = flag.Duration("prove-for", 0, "how long the kill storm lasts; 0: some seconds, with -prove 2 minutes")
	table    = flag.String("prove-table", "", "file to which each proof's result is added as a line of JSON")
)

// A verdict is what a proof has found.
type verdict struct {
	t     *testing.T
	mu    sync.Mutex
	dice  *rand.Rand
	wrong int
	ended int // workflows that ended in a clear failure

	Name       string   `json:"name"`
	Seed       uint64   `json:"seed"`
	Runs       int      `json:"runs"`     // workflows, operations or attempts, as the proof says
	Faults     int      `json:"faults"`   // injected
	Survived   int      `json:"survived"` // faults after which all was as promised
	Violations []string `json:"violations"`
	Note       string   `json:"note,omitempty"`
	Seconds    float64  `json:"seconds"`
}

// prove begins a proof, which is a test of its own. It ends with a line.
func prove(t *testing.T, name string) *verdict {
	t.Helper()
	if testing.Short() {
		t.Skip("the proving ground takes some seconds; run without -short")
	}
	v := &verdict{t: t, Name: name, Seed: *seedFlag, Violations: []string{}}
	if v.Seed == 0 {
		v.Seed = uint64(time.Now().UnixNano())%1_000_000 + 1
	}
	v.dice = rand.New(rand.NewPCG(v.Seed, 0x70726f7665))
	begun := time.Now()
	t.Cleanup(func() {
		v.Seconds = time.Since(begun).Seconds()
		v.print()
	})
	return v
}

// violated notes a promise that was not kept.
func (v *verdict) violated(format string, args ...any) {
	v.t.Helper()
	v.mu.Lock()
	v.wrong++
	text := fmt.Sprintf(format, args...)
	if len(v.Violations) < 50 {
		v.Violations = append(v.Violations, text)
	}
	v.mu.Unlock()
	v.t.Errorf("violation: %s\n(seed %d; again with: go test ./server/prove -run '^%s$' -prove-seed %d)", text, v.Seed, v.t.Name(), v.Seed)
}

// count adds to the runs and faults, and the faults that were survived.
func (v *verdict) count(runs, faults, survived int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Runs, v.Faults, v.Survived = v.Runs+runs, v.Faults+faults, v.Survived+survived
}

// roll returns a number from 0 to n-1.
func (v *verdict) roll(n int) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.dice.IntN(n)
}

// scale is short in an ordinary test run, and much with -prove.
func scale[T any](short, much T) T {
	if *long {
		return much
	}
	return short
}

func (v *verdict) print() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.t.Skipped() {
		return
	}
	if v.t.Failed() && v.wrong == 0 {
		v.Violations = append(v.Violations, "the proof itself failed; see the test's output")
	}
	v.Survived = max(0, min(v.Survived, v.Faults-len(v.Violations)))
	fmt.Printf("prove: %-24s seed=%-7d runs=%-6d faults=%-6d survived=%-6d violations=%d  %5.1f s  %s\n",
		v.Name, v.Seed, v.Runs, v.Faults, v.Survived, len(v.Violations), v.Seconds, v.Note)
	if *table == "" {
		return
	}
	line, err := json.Marshal(v)
	if err != nil {
		v.t.Error(err)
		return
	}
	f, err := os.OpenFile(*table, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		v.t.Error(err)
		return
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		v.t.Error(err)
	}
}
