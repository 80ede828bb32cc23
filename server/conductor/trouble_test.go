package conductor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"bessemer/bmc"
	"bessemer/store"
)

// TestAnyCallOfTheControllerFailsOnce: the n-th call fails, for each n until
// a deploy sees none. It must still succeed, or end in a named failure.
func TestAnyCallOfTheControllerFailsOnce(t *testing.T) {
	for n := int32(1); ; n++ {
		w := newWorld(t)
		var calls atomic.Int32
		var hit atomic.Bool
		fn := func(string) error {
			if calls.Add(1) == n {
				hit.Store(true)
				return fmt.Errorf("%w: connection reset", bmc.ErrUnreachable)
			}
			return nil
		}
		w.enroll(store.Available)
		w.trouble.Store(&fn)
		w.provision("active")
		w.wantState(w.settled(), store.Active)
		if w.m.starts() != 2 || w.seen.count("agent: execute_deploy_step write_image") != 1 {
			t.Errorf("call %d failed: started %d times; seen:\n%s", n, w.m.starts(), strings.Join(w.seen.all(), "\n"))
		}
		w.stop()
		if !hit.Load() {
			t.Logf("%d calls were failed one by one", n-1)
			return
		}
	}
}

// TestAnyAnswerOfTheAgentIsLost: it has done what it was told, and the answer
// does not arrive. Nothing is done twice that must not be.
func TestAnyAnswerOfTheAgentIsLost(t *testing.T) {
	for _, name := range []string{
		"deploy.get_deploy_steps", "deploy.execute_deploy_step", "standby.get_partition_uuids", "image.install_bootloader",
		"log.collect_system_logs", "standby.sync",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.m.loseReply[name] = 1
			w.enroll(store.Available)
			w.provision("active")
			w.wantState(w.settled(), store.Active)
			for _, once := range []string{"agent: execute_deploy_step write_image", "agent: install_bootloader"} {
				if got := w.seen.count(once); got != 1 {
					t.Errorf("%q happened %d times", once, got)
				}
			}
		})
	}
}

// TestActiveNodesAreLeftAlone by restarts, power sync and boot servers, also
// when their controllers lie.
func TestActiveNodesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Active, func(n *store.Node) { n.PowerState = store.PowerOn })
	w.m.act(bmc.On)
	before := len(w.seen.all())
	for i := range 20 {
		w.stop()
		w.m.mu.Lock()
		w.m.power = []store.PowerState{store.PowerOn, store.PowerOff, store.PowerError, ""}[i%4]
		w.m.mu.Unlock()
		w.Conductor = New(w.config)
		w.start()
		w.syncAll(t.Context(), 0, map[string]int{})
		if b, _ := w.index.get(testNode); nextBoot(b).Action != "local" {
			t.Errorf("the boot servers say %+v", nextBoot(b))
		}
	}
	if got := w.seen.all()[before:]; len(got) > 0 {
		t.Errorf("the machine has felt: %v", got)
	}
	if n := w.get(); n.ProvisionState != store.Active || n.Run != 0 {
		t.Errorf("node is %+v", n)
	}
}

func TestAPanicFailsItsStep(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.workflows["verify"] = &Workflow{
		Name: "verify", Running: store.Verifying, Done: always(store.Manageable), Failed: store.Enroll,
		Steps: []Step{{Name: "identify-controller", Tries: 3, Do: func(context.Context, *Task) error { panic("nil map") }}},
	}
	w.enroll(store.Enroll)
	w.provision("manage")
	w.start()
	id := w.get().Run
	n := w.settled()
	w.wantState(n, store.Enroll)
	r := w.run(id)
	if !strings.Contains(n.LastError, "a fault of the appliance (nil map)") || !strings.Contains(r.Stack, "trouble_test.go") || r.Steps[0].Attempts != 1 {
		t.Errorf("last_error %q, run %+v", n.LastError, r)
	}
}

func TestAnUnknownStepFailsClearly(t *testing.T) {
	tests := []struct {
		name           string
		workflow, step string
		state, want    store.ProvisionState
	}{
		{"step", "deploy", "frobnicate", store.Deploying, store.DeployFailed},
		{"workflow", "transmogrify", "x", store.Cleaning, store.CleanFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.stop()
			w.enroll(store.Available)
			w.provision("active")
			err := w.db.Update(func(tx *store.Tx) error {
				n, err := store.Nodes.Get(tx, testNode)
				if err != nil {
					return err
				}
				n.ProvisionState = tt.state
				r, err := store.Runs.Get(tx, store.RunKey(n.Run))
				if err != nil {
					return err
				}
				r.Workflow, r.Step = tt.workflow, tt.step
				return errors.Join(store.Runs.Put(tx, r), store.Nodes.Put(tx, n))
			})
			if err != nil {
				t.Fatal(err)
			}
			w.start()
			n := w.settled()
			w.wantState(n, tt.want)
			if !strings.HasPrefix(n.LastError, tt.step+": this release has no such step") {
				t.Errorf("last_error is %q", n.LastError)
			}
		})
	}
}

// TestStuckNodesAreFreedAtStart: locks and busy states without a run, and
// runs without a node.
func TestStuckNodesAreFreedAtStart(t *testing.T) {
	w := newWorld(t)
	w.stop()
	w.enroll(store.Cleaning, func(n *store.Node) { n.Reservation = &store.Reservation{Holder: "old name"}; n.Run = 99 })
	if err := w.db.Update(func(tx *store.Tx) error {
		return store.Runs.Put(tx, &store.Run{ID: 5, Node: "gone", Workflow: "deploy", Step: "reboot", Outcome: store.Running})
	}); err != nil {
		t.Fatal(err)
	}
	w.start()
	n := w.settled()
	w.wantState(n, store.CleanFailed)
	if n.Reservation != nil || !strings.Contains(n.LastError, "found the node cleaning without a run") {
		t.Errorf("node is %+v", n)
	}
	if r := w.run(5); r.Outcome != store.Aborted {
		t.Errorf("run without a node is %+v", r)
	}
}

// TestANodeDeletedMeanwhile ends its run quietly.
func TestANodeDeletedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.m.mute = true
	w.enroll(store.Available)
	w.provision("active")
	w.await("to wait", func(n *store.Node) bool { return n.ProvisionState == store.DeployWait })
	if err := w.db.Update(func(tx *store.Tx) error { return store.Nodes.Delete(tx, testNode) }); err != nil {
		t.Fatal(err)
	}
	w.NodeChanged(testNode)
	w.Wake(testNode)
	w.stop()
	if _, ok := w.index.get(testNode); ok {
		t.Error("the boot servers still know the node")
	}
}

func TestQueueNeverGivesANodeTwice(t *testing.T) {
	q := newQueue()
	q.add("a")
	q.add("a")
	q.add("b")
	if n, _ := q.next(); n != "a" {
		t.Fatalf("got %s", n)
	}
	q.add("a") // while it is worked on
	if n, _ := q.next(); n != "b" {
		t.Fatalf("got %s", n)
	}
	if n, ok := q.next(); ok {
		t.Fatalf("got %s while it is worked on", n)
	}
	q.done("a")
	if n, ok := q.next(); !ok || n != "a" {
		t.Fatalf("got %q after it was done", n)
	}
	q.done("a")
	q.done("b")
	if len(q.state) != 0 {
		t.Errorf("left over: %v", q.state)
	}
}

func TestStepNamesAreUnique(t *testing.T) {
	names := map[string]bool{}
	for _, w := range allWorkflows {
		if names[w.Name] {
			t.Errorf("two workflows are called %q", w.Name)
		}
		names[w.Name] = true
		var steps []string
		for _, s := range slices.Concat(w.Steps, w.OnFailure) {
			if slices.Contains(steps, s.Name) {
				t.Errorf("workflow %s has two steps %s", w.Name, s.Name)
			}
			steps = append(steps, s.Name)
		}
		if w.Then != "" && !slices.ContainsFunc(allWorkflows, func(x *Workflow) bool { return x.Name == w.Then }) {
			t.Errorf("workflow %s is followed by %q", w.Name, w.Then)
		}
	}
}
