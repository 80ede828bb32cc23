package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var someRows = []demoRow{
	{"sim-001", "Dell PowerEdge R650", "redfish", "active", "web-1 is up", 1, 9800 * time.Millisecond},
	{"sim-002", "Supermicro SYS-1029P", "ipmi", "deploy wait", "write image", 0.7, 6100 * time.Millisecond},
	{"sim-003", "Lenovo SR630", "redfish", "deploy failed", "power-off: no answer", 0.1, time.Second},
	{"sim-004", "Lenovo SR630", "ipmi", "available", "", -1, 0},
}

func TestDemoTable(t *testing.T) {
	want := strings.Join([]string{
		"  MACHINE  MODEL                 BMC        STATE           STEP                  PROGRESS                      TIME",
		"  sim-001  Dell PowerEdge R650   redfish  ● active          web-1 is up           ████████████████████ 100%    9.8 s",
		"  sim-002  Supermicro SYS-1029P  ipmi     ◐ deploy wait     write image           ██████████████░░░░░░  70%    6.1 s",
		"  sim-003  Lenovo SR630          redfish  ✗ deploy failed   power-off: no answer  ██░░░░░░░░░░░░░░░░░░  10%    1.0 s",
		"  sim-004  Lenovo SR630          ipmi     ○ available                                                               ",
	}, "\n")
	if diff := cmp.Diff(want, strings.Join(demoTable(false, someRows, 200, 50), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := strings.Join(demoTable(true, someRows, 200, 50), "\n"); !strings.Contains(got, "\x1b[32m●\x1b[0m") {
		t.Errorf("no colour on a terminal: %q", got)
	}
}

// What does not fit leaves lines that do not wrap, down to a terminal that
// shows no more than machines and states, and the machines that go somewhere.
func TestDemoTableInASmallTerminal(t *testing.T) {
	for width := range 200 {
		lines := demoTable(false, someRows, width, 4)
		if len(lines) != 4 || !strings.Contains(lines[3], "and 2 more") || !strings.Contains(lines[1], "sim-001") {
			t.Errorf("lines:\n%s", strings.Join(lines, "\n"))
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(l); n > max(width, 27) {
				t.Errorf("%d columns of %d: %s", n, width, l)
			}
		}
	}
	for limit := range 5 {
		demoTable(true, someRows, 80, limit) // whatever is asked for
	}
	want := strings.Join([]string{
		"  MACHINE  BMC        STATE           STEP                  PROGRESS            TIME",
		"  sim-001  redfish  ● active          web-1 is up           ██████████ 100%    9.8 s",
		"  … and 3 more",
	}, "\n")
	if diff := cmp.Diff(want, strings.Join(demoTable(false, someRows, 84, 3), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestClipToLittle(t *testing.T) {
	for n, want := range map[int]string{-1: "", 0: "", 1: "…", 3: "ab…", 4: "abcd", 9: "abcd"} {
		if got := clip("abcd", n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
