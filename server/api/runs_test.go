package api

import (
	"strings"
	"testing"
	"time"

	"bessemer/store"
)

// What runs now shows in a run before it is saved.
func TestRunningStep(t *testing.T) {
	g := newRig(t, "none")
	id := g.node("n1")
	g.run(store.Run{
		ID: 3, Node: id, Trace: store.NewTrace(), Workflow: "deploy", Step: "reboot", Outcome: store.Running, Started: ago(time.Minute),
		Steps:      []store.RunStep{{Name: "power-off", Outcome: store.OK}, {Name: "reboot", Outcome: store.Failed, Attempts: 1, Error: "get http://u:hush@x/"}},
		WaitingFor: "another try, after: get http://u:hush@x/",
	})
	g.fake.runs, g.fake.step = 3, store.RunStep{Name: "reboot", Outcome: store.Running, Attempts: 2, Started: ago(time.Second)}
	for _, path := range []string{"/api/v1/runs", "/api/v1/runs?outcome=running", "/api/v1/runs?node=n1", "/api/v1/runs/3", "/api/v1/nodes/n1/trace"} {
		a := g.must(200, "", "GET", path, "")
		if strings.Contains(a.body, "hush") {
			t.Errorf("%s shows a password: %s", path, a.body)
		}
		if n := strings.Count(a.body, `"name":"reboot","outcome":"running","attempts":2`); n != 1 {
			t.Errorf("%s: the running step shows %d times: %s", path, n, a.body)
		}
	}
	g.fake.line = "its turn; it is number 3 of 7 in line"
	if a := g.must(200, "", "GET", "/api/v1/runs/3", ""); !strings.Contains(a.body, `"waiting_for":"its turn; it is number 3 of 7 in line"`) {
		t.Errorf("its place in line does not show: %s", a.body)
	}
	g.fake.step.Name = "power-off" // it has ended, the next is not begun yet
	if a := g.must(200, "", "GET", "/api/v1/runs/3", ""); strings.Contains(a.body, `"outcome":"running","attempts":2`) {
		t.Errorf("a step that has ended runs: %s", a.body)
	}
}

// Runs are counted once, when they have ended since the start.
func TestRunMetrics(t *testing.T) {
	g := newRig(t, "none")
	id := g.node("n1")
	put := func(n uint64, o store.Outcome) {
		g.run(store.Run{ID: n, Node: id, Trace: store.NewTrace(), Workflow: "deploy", Outcome: o})
	}
	put(1, store.OK)
	put(2, store.Running)
	g.api = New(g.api.Config) // a restart
	g.url = g.serve(g.api.Handler())
	put(3, store.Failed)
	put(4, store.Running)
	want := func(open string, lines ...string) {
		t.Helper()
		body := g.must(200, "", "GET", "/metrics", "").body
		for _, l := range append(lines, "bessemer_runs_open "+open) {
			if !strings.Contains(body, l+"\n") {
				t.Errorf("metrics lack %s", l)
			}
		}
		if n := strings.Count(body, "bessemer_runs_total{"); n != len(lines) {
			t.Errorf("%d kinds of runs, want %d", n, len(lines))
		}
	}
	failed := `bessemer_runs_total{workflow="deploy",outcome="failed"} 1`
	want("2", failed)
	put(2, store.OK)
	put(4, store.OK)
	want("0", failed, `bessemer_runs_total{workflow="deploy",outcome="ok"} 2`)
	want("0", failed, `bessemer_runs_total{workflow="deploy",outcome="ok"} 2`)
}
