package conductor

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bessemer/pxe"
	"bessemer/store"
)

// restartCases are the workflows that boot a ramdisk, and what they leave.
var restartCases = []struct {
	name    string
	w       *Workflow
	from    store.ProvisionState
	request ProvisionRequest
	want    store.ProvisionState
}{
	{"deploy", &Deploy, store.Available, ProvisionRequest{Target: "active"}, store.Active},
	{"rebuild", &Rebuild, store.Active, ProvisionRequest{Target: "rebuild"}, store.Active},
	{"clean", &Clean, store.Manageable, ProvisionRequest{Target: "provide"}, store.Available},
	{"manual clean", &ManualClean, store.Manageable, ProvisionRequest{Target: "clean", CleanSteps: []StepRequest{
		{Interface: "deploy", Step: "erase_devices"}, {Interface: "deploy", Step: "erase_devices_metadata"},
	}}, store.Manageable},
}

// TestAMachineThatRestartsByItself, or whose agent crashes, in any step that
// needs the agent: the node is started once more, and the run reaches its
// goal.
func TestAMachineThatRestartsByItself(t *testing.T) {
	accidents := map[string]func(*machine){
		"restart": (*machine).restart, "crash": (*machine).crashAgent, "power": (*machine).cutPower,
	}
	for _, tt := range restartCases {
		for i := range tt.w.Steps {
			step := tt.w.Steps[i].Name
			if !tt.w.needsAgent(step) || tt.w == &Rebuild && step != "write-image" { // the others are Deploy's
				continue
			}
			for what, accident := range accidents {
				t.Run(fmt.Sprintf("%s %s %s", tt.name, step, what), func(t *testing.T) {
					t.Parallel()
					w := newAccident(t, tt.w.Name+"/"+step, "before", 1, accident)
					w.enroll(tt.from)
					if err := w.Provision(t.Context(), testNode, tt.request); err != nil {
						t.Fatal(err)
					}
					w.wantState(w.settled(), tt.want)
					w.wantStarts(tt.want, 2)
					if n := w.count(store.LabelAgentGone); n != 1 {
						t.Errorf("%d messages say that the agent has gone", n)
					}
				})
			}
		}
	}
}

// wantStarts checks how often a run has started its node, and that a deployed
// one has the whole image.
func (w *world) wantStarts(state store.ProvisionState, want int) {
	w.t.Helper()
	if state == store.Active {
		want++ // into the instance
		if disk, _ := w.m.content(); !bytes.Equal(disk, testImage) {
			w.t.Error("the image is not on the disk")
		}
	}
	if got := w.m.starts(); got != want {
		w.t.Errorf("started %d times, want %d; seen:\n%s", got, want, strings.Join(w.seen.all(), "\n"))
	}
}

// count returns how many messages have a label.
func (w *world) count(label string) int {
	w.t.Helper()
	ms, err := w.db.MessagesAfter(0, 0, func(m *store.Message) bool { return m.Label == label && m.Kind != store.Reply })
	if err != nil {
		w.t.Fatal(err)
	}
	return len(ms)
}

// newAccident is a world in which something happens to the machine the first
// times that a point of a step is reached.
func newAccident(t *testing.T, where, point string, times int, accident func(*machine)) *world {
	var w *world
	ready := make(chan struct{})
	var mu sync.Mutex
	w = newWorld(t, func(c *Config) {
		c.Crash = func(at, p string) {
			<-ready
			mu.Lock()
			defer mu.Unlock()
			if at == where && p == point && times > 0 {
				times--
				accident(w.m)
			}
		}
	})
	close(ready)
	return w
}

// TestARestartDuringTheWrite: what is half written is written again from its
// beginning, and nobody waits for the old writing.
func TestARestartDuringTheWrite(t *testing.T) {
	w := newAccident(t, "deploy/write-image", "saved", 1, (*machine).restart)
	w.m.writeTime = 200 * time.Millisecond
	w.enroll(store.Available)
	w.provision("active")
	w.wantState(w.settled(), store.Active)
	w.wantStarts(store.Active, 2)
	if a, b := w.seen.count("agent: execute_deploy_step write_image"), w.seen.count("agent: execute_deploy_step write_image ended"); a != 2 || b != 1 {
		t.Errorf("the write was begun %d times and ended %d times", a, b)
	}
}

// TestCleanStepsThatAreDoneStayDone over a restart of the machine.
func TestCleanStepsThatAreDoneStayDone(t *testing.T) {
	saves := 0
	var w *world
	w = newWorld(t, func(c *Config) {
		c.Crash = func(at, p string) {
			if at != "manual clean/run-clean-steps" || p != "saved" || saves > 0 {
				return
			}
			if w.seen.count("agent: execute_clean_step erase_devices ended") == 1 {
				saves++
				w.m.restart()
			}
		}
	})
	w.enroll(store.Manageable)
	w.provision("clean", func(r *ProvisionRequest) { r.CleanSteps = restartCases[3].request.CleanSteps })
	w.wantState(w.settled(), store.Manageable)
	w.wantStarts(store.Manageable, 2)
	for _, step := range []string{"erase_devices", "erase_devices_metadata"} {
		if got := w.seen.count("agent: execute_clean_step " + step + " ended"); got != 1 {
			t.Errorf("%s was done %d times; seen:\n%s", step, got, strings.Join(w.seen.all(), "\n"))
		}
	}
}

// TestAMachineThatNeverStays is given up, with what was seen of it.
func TestAMachineThatNeverStays(t *testing.T) {
	for _, step := range []string{"write-image", "sync-disks"} {
		t.Run(step, func(t *testing.T) {
			w := newAccident(t, "deploy/"+step, "before", 1<<30, (*machine).restart)
			w.enroll(store.Available)
			w.provision("active")
			n := w.settled()
			w.wantState(n, store.DeployFailed)
			if w.m.starts() != 3 || !strings.HasPrefix(n.LastError, step+": the agent has gone (") || !strings.Contains(n.LastError, "this was start 3 of the node, and the last") {
				t.Errorf("%d starts, last_error %q", w.m.starts(), n.LastError)
			}
		})
	}
}

// TestAStrangerCausesALookAtMost: whoever boots or looks up in the node's name
// while the real agent answers changes nothing.
func TestAStrangerCausesALookAtMost(t *testing.T) {
	w := newWorld(t)
	w.m.writeTime = 500 * time.Millisecond
	w.enroll(store.Available)
	w.provision("active")
	w.await("to write", func(*store.Node) bool { return w.seen.count("agent: execute_deploy_step write_image") == 1 })
	for w.seen.count("agent: execute_deploy_step write_image ended") == 0 {
		w.Boot(t.Context(), pxe.Machine{MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, What: "DHCP DISCOVER", VendorClass: "PXEClient:Arch:00007"})
		if l, err := w.Lookup(t.Context(), []string{testMAC}, "", "192.0.2.66:1", true); err == nil && l.Config.AgentToken != maskedToken {
			t.Fatal("a stranger was given the token")
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.wantState(w.settled(), store.Active)
	w.wantStarts(store.Active, 1)
	if w.seen.count("agent: execute_deploy_step write_image") != 1 || w.count(store.LabelAgentGone) != 0 {
		t.Errorf("the run was disturbed; seen:\n%s", strings.Join(w.seen.all(), "\n"))
	}
	if n := w.count(store.LabelCheckAgent); n == 0 || n > 30 {
		t.Errorf("%d looks", n)
	}
}

// TestThePowerFailsForAll: appliance and machine go down at once. The next
// process finds the agent gone, or the machine off, and starts it again.
func TestThePowerFailsForAll(t *testing.T) {
	tests := []struct {
		name     string
		accident func(*machine)
		mute     bool
	}{
		{"off while it writes", (*machine).cutPower, false},
		{"back while it writes", (*machine).restart, false},
		{"off while it boots", (*machine).cutPower, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.m.mute, w.m.hang["write_image"] = tt.mute, !tt.mute
			w.enroll(store.Available)
			w.provision("active")
			w.await("to wait", func(n *store.Node) bool {
				return n.Run != 0 && (tt.mute && n.ProvisionState == store.DeployWait || w.seen.count("agent: execute_deploy_step write_image") == 1)
			})
			w.stop()
			w.m.mu.Lock()
			w.m.mute, w.m.hang["write_image"] = false, false
			w.m.mu.Unlock()
			tt.accident(w.m)
			w.Conductor = New(w.config)
			w.start()
			w.wantState(w.settled(), store.Active)
			w.wantStarts(store.Active, 2)
		})
	}
}

// TestASignDuringALook: a machine that falls silent is looked at for long, since
// the network may have failed. That it boots meanwhile tells the two apart.
func TestASignDuringALook(t *testing.T) {
	var silent atomic.Bool
	w := newWorld(t, func(c *Config) {
		c.Timeouts.Look = 100 * time.Millisecond
		c.AgentTransport = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if silent.Load() {
					return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
				}
				return next.RoundTrip(r)
			})
		}
	})
	w.m.hang["write_image"] = true
	w.enroll(store.Available)
	w.provision("active")
	w.await("to write", func(*store.Node) bool { return w.seen.count("agent: execute_deploy_step write_image") == 1 })
	silent.Store(true)
	w.m.crashAgent() // nor are there heartbeats
	w.await("to be looked at", func(n *store.Node) bool {
		w.Wake(n.UUID)
		return w.looks.underWay(n.UUID)
	})
	w.Boot(t.Context(), pxe.Machine{MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, What: "DHCP DISCOVER", VendorClass: "PXEClient:Arch:00007"})
	w.await("to be found gone", func(*store.Node) bool { return w.count(store.LabelAgentGone) == 1 })
	w.m.mu.Lock()
	w.m.hang["write_image"] = false
	w.m.mu.Unlock()
	silent.Store(false)
	w.wantState(w.settled(), store.Active)
	w.wantStarts(store.Active, 2)
}

// roundTrip is a function as a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (l *looks) underWay(node string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy[node] != nil
}

func TestWhenAnAgentHasGone(t *testing.T) {
	refuse := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	noRoute := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
	late := &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	tests := []struct {
		name   string
		err    error
		sign   bool
		missed int
		want   bool
	}{
		{"one refusal", refuse, true, 1, false},
		{"three refusals", refuse, false, 3, true},
		{"no route, as in a broken network", noRoute, false, 3, false},
		{"no route for long", noRoute, false, 15, true},
		{"no route, and it has booted", noRoute, true, 3, true},
		{"silence, as of a broken network", late, false, 100, false},
		{"silence, and it has booted", late, true, 3, true},
		{"a connection that breaks off", errors.New("EOF"), true, 100, false},
		{"an answer that is late", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true, 100, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kind := missOf(fmt.Errorf("call: %w", ofConnection(tt.err)))
			if got := enough(kind, tt.sign, tt.missed); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
