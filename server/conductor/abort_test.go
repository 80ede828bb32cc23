package conductor

import (
	"strings"
	"sync"
	"testing"
	"time"

	"bessemer/store"
)

func TestAbort(t *testing.T) {
	tests := []struct {
		name   string
		from   store.ProvisionState
		verb   string
		mute   bool
		step   string // that the run is in when it is aborted
		want   store.ProvisionState
		target store.ProvisionState
	}{
		{"deploy that awaits the agent", store.Available, "active", true, "await-agent", store.DeployFailed, store.Active},
		{"deploy that writes", store.Available, "active", false, "write-image", store.DeployFailed, store.Active},
		{"clean that awaits the agent", store.Manageable, "provide", true, "await-agent", store.CleanFailed, store.Available},
		{"clean that wipes", store.Manageable, "provide", false, "run-clean-steps", store.CleanFailed, store.Available},
	}
	for _, tt := range tests {
		for _, verb := range []string{"abort", "deleted"} {
			if verb == "deleted" && tt.from != store.Available {
				continue
			}
			t.Run(verb+" of a "+tt.name, func(t *testing.T) {
				w := newWorld(t)
				w.m.mute = tt.mute
				w.m.hang = map[string]bool{"write_image": true, "erase_devices_metadata": true}
				w.enroll(tt.from)
				w.provision(tt.verb)
				w.await("to "+tt.step, func(n *store.Node) bool {
					return n.Run != 0 && w.Conductor.Scope(testNode).Step == tt.step && RuleOf(n.ProvisionState).Kind == Wait
				})
				first := w.get().Run
				w.m.mu.Lock()
				w.m.hang, w.m.mute = nil, false
				w.m.mu.Unlock()
				w.provision(verb)
				if verb == "abort" {
					w.wantState(w.get(), tt.want)
				}
				n := w.settled()
				if r := w.run(first); r.Outcome != store.Aborted || r.Ended.IsZero() {
					t.Errorf("run ended as %+v", r)
				}
				w.wantUnbound()
				if verb == "deleted" {
					w.wantState(n, store.Available)
					return
				}
				w.wantState(n, tt.want)
				if !strings.HasPrefix(n.LastError, tt.step+": aborted by a request") || n.TargetProvisionState != tt.target || n.Maintenance {
					t.Errorf("node is left as %+v", n)
				}
				if w.m.state() != store.PowerOff {
					t.Error("the machine was left on")
				}
			})
		}
	}
}

// TestAbortWithoutAController ends the wait at once, whatever tidying up
// takes, and what comes next need not be timed (P-18).
func TestAbortWithoutAController(t *testing.T) {
	w := newWorld(t)
	w.m.mute = true
	w.enroll(store.Available)
	w.provision("active")
	w.await("to wait", func(n *store.Node) bool { return n.ProvisionState == store.DeployWait })
	in, out := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hang := func(method string) error {
		if strings.HasPrefix(method, "power") {
			once.Do(func() { close(in) })
			<-out
		}
		return nil
	}
	w.trouble.Store(&hang)
	w.provision("abort")
	<-in
	n := w.get()
	w.wantState(n, store.DeployFailed)
	if n.Run == 0 || n.Reservation == nil || n.LastError == "" {
		t.Errorf("while tidying up, the node is %+v", n)
	}
	time.AfterFunc(100*time.Millisecond, func() { close(out) })
	w.m.mu.Lock()
	w.m.mute = false
	w.m.mu.Unlock()
	w.provision("active") // waits for that
	w.wantState(w.settled(), store.Active)
}
