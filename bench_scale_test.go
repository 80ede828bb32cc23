//go:build linux

package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"bessemer/bmc/sim/lab"
	generator "bessemer/server/load"
)

// scaleNodes is enough to show what a node costs, in a few seconds.
const scaleNodes = 200

// benchScale has the load generator take simulated machines from bare to
// ACTIVE, and tells what each has taken.
func benchScale(t *testing.T, b *bench) {
	l := lab.New(t) // another rack of this host takes none of its addresses
	out, err := l.Command(t.Context(), "bin/bessemer", "bench", strconv.Itoa(scaleNodes), "-o", "json", "--heartbeats", "0").Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("bench %d: %v: %s", scaleNodes, err, failed.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	results, err := scaleResults(string(out))
	if err != nil {
		t.Fatal(err)
	}
	add := func(subject, unit string, figure float64, how string) {
		b.add(row{Subject: fmt.Sprintf("%d machines, %s", scaleNodes, subject), Unit: unit, Ours: []float64{figure}, Less: true, How: how})
	}
	for _, phase := range []string{"provide", "deploy"} {
		r := results[phase]
		add(phase+", per node", "ms", r.Seconds*1000/scaleNodes, fmt.Sprintf("simulated, in the appliance's process; all of them in %.1f s", r.Seconds))
	}
	list := results["list limit=100"]
	add("GET 100 nodes, p99", "ms", list.P99, fmt.Sprintf("%d requests while they were enrolled, cleaned and deployed", list.N))
	add("memory, peak", "MB", list.Peak, "resident, appliance and machines together")
}

// scaleResults reads what the load generator prints, by phase.
func scaleResults(lines string) (map[string]generator.Result, error) {
	by := map[string]generator.Result{}
	for line := range strings.Lines(lines) {
		var r generator.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("read result %q: %w", line, err)
		}
		by[r.Phase] = r
	}
	for _, phase := range []string{"provide", "deploy", "list limit=100"} {
		if by[phase].N == 0 {
			return nil, fmt.Errorf("no result of phase %q in %q", phase, lines)
		}
	}
	return by, nil
}
