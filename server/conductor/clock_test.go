package conductor

import (
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bessemer/store"
)

// setClock does to what is stored what setting the time of day forward by d
// does: all of it is that much older than it was.
func (w *world) setClock(d time.Duration) {
	w.t.Helper()
	err := w.db.Update(func(tx *store.Tx) error {
		n, err := store.Nodes.Get(tx, testNode)
		if err != nil {
			return err
		}
		r, err := store.Runs.Get(tx, store.RunKey(n.Run))
		if err != nil {
			return err
		}
		times := []*time.Time{&r.Deadline, &r.WakeAt, &r.Started, &n.Agent.Since, &n.Agent.LastHeartbeat, &n.Reservation.Since}
		if r.Ramdisk != nil {
			times = append(times, &r.Ramdisk.BootedAt)
		}
		for i := range r.Steps {
			times = append(times, &r.Steps[i].Started)
		}
		for _, at := range times {
			if !at.IsZero() {
				*at = at.Add(-d)
			}
		}
		return errors.Join(store.Nodes.Put(tx, n), store.Runs.Put(tx, r))
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

var jumps = map[string]time.Duration{"a day forward": 24 * time.Hour, "a day back": -24 * time.Hour}

// TestSetClockEndsNoWaitForTheRamdisk, and makes none longer (P-12).
func TestSetClockEndsNoWaitForTheRamdisk(t *testing.T) {
	for name, d := range jumps {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newQuietWorld(t)
				w.enroll(store.Available)
				w.provision("active")
				w.after(5 * time.Minute)
				w.setClock(d)
				w.Wake(testNode)
				if n := w.after(4 * time.Minute); n.ProvisionState != store.DeployWait || w.m.starts() != 1 {
					t.Fatalf("after 9 min: %q (%s), %d starts", n.ProvisionState, n.LastError, w.m.starts())
				}
				w.after(2 * time.Minute)
				if w.m.starts() != 2 {
					t.Errorf("after 11 min: %d starts", w.m.starts())
				}
			})
		})
	}
}

// TestSetClockLeavesAnAgentAlone that heartbeats, and its long command.
func TestSetClockLeavesAnAgentAlone(t *testing.T) {
	for name, d := range jumps {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newQuietWorld(t)
				p := &pipeAgent{conns: make(chan net.Conn), reply: writing(func() int64 { return 1 })}
				token := deployToWrite(t, w, p)
				w.after(4 * time.Minute)
				w.setClock(d)
				w.agents.forget(testNode)
				p.down.Store(true) // for a moment
				w.wantState(w.after(30*time.Second), store.DeployWait)
				p.down.Store(false)
				for range 10 {
					w.heartbeat(token)
					w.wantState(w.after(2*time.Minute), store.DeployWait)
				}
				for range 4 {
					_ = w.Heartbeat(t.Context(), testNode, "192.0.2.7:4000", heartbeatOf(token))
					w.after(2 * time.Minute)
				}
				n := w.get()
				w.wantState(n, store.DeployFailed)
				if !strings.Contains(n.LastError, "within 30m0s") {
					t.Errorf("last_error is %q", n.LastError)
				}
			})
		})
	}
}

// TestSetClockHoldsUpNoRetry: a step that failed is tried again in time.
func TestSetClockHoldsUpNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		w.enroll(store.Available)
		w.fail("set boot pxe", errors.New("busy"))
		w.provision("active")
		w.after(time.Second)
		w.setClock(-24 * time.Hour)
		w.fail("", nil)
		w.Wake(testNode)
		w.wantState(w.after(time.Minute), store.DeployWait)
	})
}

// TestRunningStepShowsAtOnce, before anything of it is saved.
func TestRunningStepShowsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Enroll)
	in, out := make(chan struct{}), make(chan struct{})
	hang := func(method string) error {
		if method == "identify" {
			close(in)
			<-out
		}
		return nil
	}
	w.trouble.Store(&hang)
	w.provision("manage")
	<-in
	run, s, ok := w.RunningStep(testNode)
	if !ok || run != w.get().Run || s.Name != "identify-controller" || s.Outcome != store.Running || s.Started.IsZero() || s.Attempts != 1 {
		t.Errorf("got %v %+v %v", run, s, ok)
	}
	close(out)
	w.settled()
	if _, s, ok := w.RunningStep(testNode); ok {
		t.Errorf("after the run: %+v", s)
	}
}
