package cli

import (
	"testing"
	"time"

	"bessemer/bmc/sim/rack"
	"bessemer/server/conductor"
	"bessemer/store"
)

// The demo's bars know every step of a deploy, and never go back.
func TestMilestonesAreTheStepsOfADeploy(t *testing.T) {
	last := 0.0
	var steps []string
	for _, m := range milestones {
		if m.share < last {
			t.Errorf("%s %s goes back to %v", m.step, m.stage, m.share)
		}
		last = m.share
		if m.stage == "" {
			steps = append(steps, m.step)
		}
	}
	if last > diskShare {
		t.Errorf("the last is at %v, behind the start from disk", last)
	}
	i := 0
	for _, s := range conductor.Deploy.Steps {
		if i == len(steps) || steps[i] != s.Name {
			t.Fatalf("step %s of a deploy has no milestone in its place: %v", s.Name, steps)
		}
		i++
	}
}

func TestDeployShare(t *testing.T) {
	tests := []struct {
		name        string
		state       string
		run         *store.Run
		st          rack.Status
		share, next float64
		doing       string
	}{
		{"not begun", "available", nil, rack.Status{}, 0, 0, ""},
		{"step", "deploying", &store.Run{Step: "power-off"}, rack.Status{}, 0.03, 0.04, "power off"},
		{"machine starts", "wait call-back", &store.Run{Step: "await-agent"}, rack.Status{Stage: rack.StageDHCP}, 0.33, 0.40, "network boot"},
		{"machine hangs", "wait call-back", &store.Run{Step: "await-agent"}, rack.Status{Stage: rack.StageHung}, 0.11, 0.11, "await agent"},
		{"half written", "deploying", &store.Run{Step: "write-image", Progress: &store.Progress{Done: 1, Total: 2}}, rack.Status{}, 0.55, 0.60, "write image"},
		{"a step that is new", "deploying", &store.Run{Step: "bless"}, rack.Status{}, 0, 0, "bless"},
		{"active", "active", nil, rack.Status{Stage: rack.StagePOST}, diskShare, 1, "boots its disk"},
		{"active with an old name", "active", nil, rack.Status{Stage: rack.StageAgent, Hostname: "old"}, diskShare, 1, "boots its disk"},
		{"up", "active", nil, rack.Status{Stage: rack.StageRunning, Hostname: "web-1"}, 1, 1, "web-1 is up"},
	}
	for _, tt := range tests {
		share, next, doing := deployShare(tt.state, tt.run, tt.st)
		if share-tt.share > 1e-9 || tt.share-share > 1e-9 || next != tt.next || doing != tt.doing {
			t.Errorf("%s: got %v to %v, %q", tt.name, share, next, doing)
		}
	}
}

func TestCreepNeverArrives(t *testing.T) {
	w := &demoWatch{since: map[string]stretch{"m": {"POST", time.Now().Add(-time.Hour)}}}
	if got := w.creep("m", "POST", 0.2, 0.4); got < 0.37 || got >= 0.4 {
		t.Errorf("after an hour it is at %v", got)
	}
	if got := w.creep("m", "boot", 0.4, 0.5); got > 0.41 {
		t.Errorf("it begins at %v", got)
	}
}
