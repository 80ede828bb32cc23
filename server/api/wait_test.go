package api

import (
	"testing"
	"time"

	"bessemer/store"
)

// A run keeps its node's lock while it waits for the node; Ironic's does not.
func TestWaitingNodesAreNotLocked(t *testing.T) {
	for _, state := range []store.ProvisionState{store.DeployWait, store.CleanWait} {
		g := newRig(t, "none")
		id := g.node("n1")
		g.run(store.Run{ID: 7, Node: id, Workflow: "deploy", Step: "await-agent", Outcome: store.Running, Started: time.Now()})
		g.set(id, func(n *store.Node) {
			n.ProvisionState, n.TargetProvisionState, n.Run = state, store.Active, 7
			n.Reservation = &store.Reservation{Holder: "conductor", Why: "deploy", Since: time.Now()}
		})
		if got := g.must(200, "1.82", "GET", "/v1/nodes/n1", "").object()["reservation"]; got != nil {
			t.Errorf("%s: got reservation %v, want null", state, got)
		}
		g.must(204, "1.82", "PUT", "/v1/nodes/n1/traits/CUSTOM_X", "")
		g.must(409, "1.82", "PATCH", "/v1/nodes/n1", `[{"op":"add","path":"/extra/x","value":1}]`)
		g.must(409, "1.82", "DELETE", "/v1/nodes/n1", "")
		g.must(202, "1.82", "PUT", "/v1/nodes/n1/maintenance", `{"reason":"hopeless"}`)
		g.must(204, "1.82", "DELETE", "/v1/nodes/n1", "")
		if got := g.must(200, "", "GET", "/api/v1/runs/7", "").object()["outcome"]; got != "aborted" {
			t.Errorf("%s: the deleted node's run is %v, want aborted", state, got)
		}
	}
}

// While its run works on it, a node is locked whatever its maintenance.
func TestBusyNodesAreLocked(t *testing.T) {
	g := newRig(t, "none")
	id := g.node("n1")
	g.set(id, func(n *store.Node) {
		n.ProvisionState, n.TargetProvisionState, n.Maintenance = store.Deploying, store.Active, true
		n.Reservation = &store.Reservation{Holder: "conductor", Why: "deploy", Since: time.Now()}
	})
	if got := g.must(200, "1.82", "GET", "/v1/nodes/n1", "").object()["reservation"]; got != "conductor" {
		t.Errorf("got reservation %v", got)
	}
	g.must(409, "1.82", "PUT", "/v1/nodes/n1/traits/CUSTOM_X", "")
	g.must(409, "1.82", "DELETE", "/v1/nodes/n1", "")
}
