package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bessemer/store"
)

// steps makes the steps of a run: names that end in + are over, in - failed.
func steps(names ...string) []store.RunStep {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var out []store.RunStep
	for _, n := range names {
		s := store.RunStep{Name: strings.TrimRight(n, "+-"), Started: at, Ended: at.Add(1500 * time.Millisecond)}
		switch {
		case strings.HasSuffix(n, "+"):
			s.Outcome = store.OK
		case strings.HasSuffix(n, "-"):
			s.Outcome, s.Error = store.Failed, "no\x1b[2Jroute"
		default:
			s.Outcome, s.Ended = store.Running, time.Time{}
		}
		out = append(out, s)
	}
	return out
}

func writing(done, total int64) *store.Progress {
	return &store.Progress{What: "write image", Done: done, Total: total, Rate: 5e6, ETA: 12}
}

// theRun is a run as --wait reads it, again and again.
var theRun = []store.Run{
	{ID: 7, Workflow: "deploy", Steps: steps("power-off")},
	{ID: 7, Workflow: "deploy", Steps: steps("power-off+", "await-agent"), WaitingFor: "the node to call"},
	{ID: 7, Workflow: "deploy", Steps: steps("power-off+", "await-agent"), WaitingFor: "the node to call"},
	{ID: 7, Workflow: "deploy", Steps: steps("power-off+", "await-agent+", "write-image"), Progress: writing(0, 100e6)},
	{ID: 7, Workflow: "deploy", Steps: steps("power-off+", "await-agent+", "write-image"), Progress: writing(1e6, 100e6)},
	{ID: 7, Workflow: "deploy", Steps: steps("power-off+", "await-agent+", "write-image"), Progress: writing(55e6, 100e6)},
	{ID: 7, Workflow: "deploy", Steps: steps("power-off+", "await-agent+", "write-image-")},
	{ID: 8, Workflow: "clean", Steps: steps("validate+")},
}

func TestProgressWithoutTerminal(t *testing.T) {
	var b strings.Builder
	p := newProgress(&b)
	for _, r := range theRun {
		p.run(r)
	}
	p.clear()
	want := `deploy (run 7)
  ✓ power-off                      1.5 s
  … await-agent  waits for the node to call
  ✓ await-agent                    1.5 s
  … write-image  write image [░░░░░░░░░░░░░░░░░░░░] 0% of 100 MB, 5.0 MB/s, 12 s left
  … write-image  write image [███████████░░░░░░░░░] 55% of 100 MB, 5.0 MB/s, 12 s left
  ✗ write-image                    1.5 s  no�[2Jroute
clean (run 8)
  ✓ validate                       1.5 s
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

// screen shows what a terminal shows after text: lines that were written over
// are gone.
func screen(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		parts := strings.Split(l, "\r\x1b[K")
		lines[i] = parts[len(parts)-1]
	}
	return strings.Join(lines, "\n")
}

func TestProgressOnTerminal(t *testing.T) {
	var b strings.Builder
	p := &progress{w: &b, width: func() int { return 50 }}
	for _, r := range theRun[:6] {
		p.run(r)
	}
	now := screen(b.String())
	want := `deploy (run 7)
  ✓ power-off                      1.5 s
  ✓ await-agent                    1.5 s
  … write-image  write image [███████████░░░░░░░…`
	if d := cmp.Diff(want, now); d != "" {
		t.Error(d)
	}
	for line := range strings.Lines(now) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 49 {
			t.Errorf("%q has %d characters and would go on on the next line", line, n)
		}
	}
	p.clear()
	if now := screen(b.String()); !strings.HasSuffix(now, "1.5 s\n") {
		t.Errorf("after the end the last line is left: %q", now)
	}
}

func TestHow(t *testing.T) {
	tests := []struct {
		name string
		run  store.Run
		want string
	}{
		{"nothing known", store.Run{}, ""},
		{"waiting", store.Run{WaitingFor: "rain"}, "waits for rain"},
		{"no total", store.Run{Progress: &store.Progress{What: "fetch", Done: 2_500_000}}, "fetch 2.5 MB"},
		{"more than all", store.Run{Progress: &store.Progress{What: "fetch", Done: 300, Total: 200}}, "fetch [████████████████████] 150% of 200 B"},
		{"less than nothing", store.Run{Progress: &store.Progress{What: "fetch", Done: -1, Total: 200}}, "fetch [░░░░░░░░░░░░░░░░░░░░] 0% of 200 B"},
	}
	for _, tt := range tests {
		if got := how(tt.run); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestAtRest(t *testing.T) {
	tests := []struct {
		state  string
		target any
		want   bool
	}{
		{"active", nil, true},
		{"available", nil, true},
		{"enroll", nil, true},
		{"deploying", "active", false},
		{"deploy wait", "active", false},
		{"wait call-back", "active", false},
		{"verifying", "manageable", false},
		{"deploy failed", "active", true},
		{"clean failed", "available", true},
		{"error", "available", true},
		{"manageable", "available", false},
	}
	for _, tt := range tests {
		if got := atRest(map[string]any{"provision_state": tt.state, "target_provision_state": tt.target}); got != tt.want {
			t.Errorf("%s towards %v: got %v, want %v", tt.state, tt.target, got, tt.want)
		}
	}
}
