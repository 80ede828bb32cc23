package conductor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bessemer/agent/wire"
	"bessemer/bmc"
	"bessemer/pxe"
	"bessemer/store"
	"bessemer/store/storetest"
)

// newQuietWorld is a world in which time is fake and nothing touches the
// network: the machine never boots by itself, and the agent, where a test has
// one, is at the other end of a pipe.
func newQuietWorld(t *testing.T, change ...func(*Config)) *world {
	w := &world{t: t, seen: &worldJournal{}, db: storetest.Open(t)}
	w.m = newMachine(testMAC, "http://192.0.2.1:6386", w.seen.add)
	w.m.deaf = true
	types := bmc.Types{"test": testType(func(method string) error {
		if fn := w.trouble.Load(); fn != nil {
			return (*fn)(method)
		}
		return nil
	}, func(bmc.Target) *machine { return w.m })}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "img"), testImage, 0o600); err != nil {
		t.Fatal(err)
	}
	change = append([]func(*Config){func(c *Config) { c.Timeouts, c.PlainAgents = Timeouts{PowerSync: -1}, true }}, change...)
	w.Conductor = New(testConfig(w.db, types, dir, w.m.api, change...))
	w.start()
	return w
}

// after sleeps and then looks at the node.
func (w *world) after(d time.Duration) *store.Node {
	time.Sleep(d)
	synctest.Wait()
	return w.get()
}

func (w *world) saw(what string) {
	w.Boot(w.t.Context(), pxe.Machine{MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, Arch: pxe.X64, What: what})
}

// TestNoSignOfLife: a machine that does not heed its boot device is started
// three times in all, and the failure says what was seen (B-01).
func TestNoSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		w.enroll(store.Available)
		w.provision("active")
		n := w.after(9 * time.Minute)
		if n.ProvisionState != store.DeployWait || w.m.starts() != 1 {
			t.Fatalf("after 9 min: %q, %d starts", n.ProvisionState, w.m.starts())
		}
		if r := w.run(n.Run); !strings.Contains(r.WaitingFor, "no packet since it was started") || r.Deadline.IsZero() {
			t.Errorf("waiting for %q until %v", r.WaitingFor, r.Deadline)
		}
		w.after(2 * time.Minute)
		if w.m.starts() != 2 || w.seen.count("boot device pxe (uefi, once)") != 2 {
			t.Errorf("after 11 min: %d starts; seen %v", w.m.starts(), w.seen.all())
		}
		n = w.after(20 * time.Minute)
		w.wantState(n, store.DeployFailed)
		if w.m.starts() != 3 || w.m.state() != store.PowerOff {
			t.Errorf("%d starts, machine %q", w.m.starts(), w.m.state())
		}
		want := "await-agent: the ramdisk has not called, after 3 starts of the node; nothing was seen of the node, not even a DHCP request: check its boot order, its cabling and the port's MAC address"
		if n.LastError != want {
			t.Errorf("last_error is %q", n.LastError)
		}
	})
}

// TestASlowStart: a node that says how long its starts take is given that time
// (B-22), and as much again once it has shown itself.
func TestASlowStart(t *testing.T) {
	slow := func(v any) func(*store.Node) {
		return func(n *store.Node) { n.DriverInfo = map[string]any{"deploy_callback_timeout": v} }
	}
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		w.enroll(store.Available, slow("2400"))
		w.provision("active")
		if w.after(39 * time.Minute); w.m.starts() != 1 {
			t.Errorf("%d starts in 39 min", w.m.starts())
		}
		w.saw("DHCP DISCOVER")
		if n := w.after(39 * time.Minute); w.m.starts() != 1 || n.ProvisionState != store.DeployWait {
			t.Errorf("%d starts, %q 39 min after a sign of life", w.m.starts(), n.ProvisionState)
		}
		if n := w.after(2 * time.Minute); w.m.starts() != 2 {
			t.Errorf("%d starts, %q 41 min after a sign of life", w.m.starts(), n.ProvisionState)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		w.enroll(store.Available, slow("soon"))
		err := w.Provision(t.Context(), testNode, ProvisionRequest{Target: "active"})
		if n := w.settled(); !strings.Contains(fmt.Sprint(err, n.LastError), "driver_info: deploy_callback_timeout: ") || w.m.starts() != 0 {
			t.Errorf("got %v, last_error %q, %d starts", err, n.LastError, w.m.starts())
		}
	})
}

// TestSomethingButNoAgent: a machine that shows signs of life is given the
// whole call-back time.
func TestSomethingButNoAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		w.enroll(store.Available)
		w.provision("active")
		for range 6 {
			w.after(5 * time.Minute)
			w.saw("DHCP DISCOVER")
		}
		n := w.after(time.Second)
		w.wantState(n, store.DeployFailed)
		if w.m.starts() != 1 || !strings.Contains(n.LastError, "within 30m0s") || !strings.Contains(n.LastError, "last seen: DHCP DISCOVER") {
			t.Errorf("%d starts, last_error %q", w.m.starts(), n.LastError)
		}
	})
}

// TestTokenWithoutHeartbeat: an agent that has its token and does not call is
// started anew soon.
func TestTokenWithoutHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		w.enroll(store.Available)
		w.provision("active")
		w.after(time.Second)
		l, err := w.Lookup(t.Context(), []string{testMAC}, "", "192.0.2.7:4000", true)
		if err != nil {
			t.Fatal(err)
		}
		w.after(59 * time.Second)
		if w.m.starts() != 1 {
			t.Fatalf("%d starts too early", w.m.starts())
		}
		w.after(3 * time.Second)
		again, err := w.Lookup(t.Context(), []string{testMAC}, "", "192.0.2.7:4000", true)
		if err != nil || w.m.starts() != 2 {
			t.Fatalf("%d starts, lookup: %v", w.m.starts(), err)
		}
		if again.Config.AgentToken == l.Config.AgentToken || len(again.Config.AgentToken) < 32 {
			t.Errorf("token of the second start is %q", again.Config.AgentToken)
		}
	})
}

// TestTokenAskedForAgain: an agent that asks again from where it was given its
// token has lost it, and the node is started anew at once; another machine that
// asks changes nothing.
func TestTokenAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		w.enroll(store.Available)
		w.provision("active")
		w.after(time.Second)
		for _, tt := range []struct {
			peer   string
			starts int
		}{{"192.0.2.7:4000", 1}, {"192.0.2.66:4000", 1}, {"192.0.2.7:4001", 2}, {"192.0.2.7:4002", 2}} {
			if _, err := w.Lookup(t.Context(), []string{testMAC}, "", tt.peer, true); err != nil {
				t.Fatal(err)
			}
			if w.after(10 * time.Second); w.m.starts() != tt.starts {
				t.Errorf("%d starts after a lookup from %s, want %d", w.m.starts(), tt.peer, tt.starts)
			}
		}
	})
}

// TestAHangingControllerIsSaidToHang while the step still waits for it.
func TestAHangingControllerIsSaidToHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		hang := make(chan struct{})
		fn := func(method string) error {
			if method == "set boot pxe" {
				<-hang
			}
			return nil
		}
		w.trouble.Store(&fn)
		w.enroll(store.Available)
		w.provision("active")
		w.after(20 * time.Second)
		e, err := w.Explain(t.Context(), testNode)
		if want := `an answer of the BMC to "Set boot device: pxe", for 20s`; err != nil || e.WaitingFor != want {
			t.Errorf("waiting for %q (%v), want %q", e.WaitingFor, err, want)
		}
		close(hang)
		w.after(time.Second)
		if e, err := w.Explain(t.Context(), testNode); err != nil || !strings.Contains(e.WaitingFor, "the node to ask for an address") {
			t.Errorf("waiting for %q (%v)", e.WaitingFor, err)
		}
	})
}

// A pipeAgent is an agent at the other end of pipes: fake time goes on while
// it is talked to.
type pipeAgent struct {
	conns chan net.Conn
	once  sync.Once
	down  atomic.Bool
	reply func(req *http.Request) any
}

func (p *pipeAgent) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if p.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	}
	a, b := net.Pipe()
	select {
	case p.conns <- b:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipeAgent) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *pipeAgent) Close() error {
	p.once.Do(func() { close(p.conns) })
	return nil
}

func (p *pipeAgent) Addr() net.Addr { return &net.TCPAddr{} }

// deployToWrite brings a quiet world to the writing of the image.
func deployToWrite(t *testing.T, w *world, p *pipeAgent) (token string) {
	w.agents.dial = p.dial
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { writeJSON(rw, p.reply(r)) })}
	go server.Serve(p)
	t.Cleanup(func() { w.stop(); server.Close() })
	w.enroll(store.Available)
	w.provision("active")
	w.after(time.Second)
	l, err := w.Lookup(t.Context(), []string{testMAC}, "", "192.0.2.7:4000", true)
	if err != nil {
		t.Fatal(err)
	}
	w.heartbeat(l.Config.AgentToken)
	w.after(time.Second)
	return l.Config.AgentToken
}

func heartbeatOf(token string) wire.Heartbeat {
	return wire.Heartbeat{CallbackURL: "http://192.0.2.7:9999", AgentToken: token}
}

func (w *world) heartbeat(token string) {
	w.t.Helper()
	err := w.Heartbeat(w.t.Context(), testNode, "192.0.2.7:4000", heartbeatOf(token))
	if err != nil {
		w.t.Fatal(err)
	}
}

// writing answers as an agent does that writes an image without end.
func writing(progress func() int64) func(*http.Request) any {
	started := false
	return func(r *http.Request) any {
		if r.Method == http.MethodPost {
			var req wire.CommandRequest
			readJSON(r, &req)
			if req.Name == "deploy.get_deploy_steps" {
				return wire.Command{Status: wire.Succeeded, Result: offer("deploy_steps", wire.Step{Step: "write_image"})}
			}
			started = started || req.Name == "deploy.execute_deploy_step"
			return wire.Command{Name: "execute_deploy_step", Status: wire.Running}
		}
		if !started {
			return wire.Commands{}
		}
		p := &wire.Progress{What: "writing", Done: progress(), Total: 1 << 30}
		return wire.Commands{Commands: []wire.Command{{Name: "execute_deploy_step", Status: wire.Running, Progress: p}}}
	}
}

// TestAWriteThatStandsStill is given up after the call-back time; one that
// comes forward never is.
func TestAWriteThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		begun := time.Now()
		moving := 40 * time.Minute
		p := &pipeAgent{conns: make(chan net.Conn), reply: writing(func() int64 { return int64(min(time.Since(begun), moving) / time.Second) })}
		token := deployToWrite(t, w, p)
		for time.Since(begun) < moving {
			w.after(2 * time.Minute)
			w.heartbeat(token)
		}
		n := w.get()
		w.wantState(n, store.DeployWait)
		r := w.run(n.Run)
		if r.Progress == nil || r.Progress.Total != 1<<30 || r.Progress.Done < 2000 || n.DeployStep == nil || n.DeployStep.Step != "write_image" {
			t.Errorf("progress %+v, deploy step %+v", r.Progress, n.DeployStep)
		}
		for range 16 {
			w.after(2 * time.Minute)
			_ = w.Heartbeat(t.Context(), testNode, "192.0.2.7:4000", heartbeatOf(token))
		}
		n = w.get()
		w.wantState(n, store.DeployFailed)
		if !strings.HasPrefix(n.LastError, "write-image: no sign of the image to be written within 30m0s") {
			t.Errorf("last_error is %q", n.LastError)
		}
	})
}

// TestAnAgentThatGoes during the write is noticed by its silence.
func TestAnAgentThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		p := &pipeAgent{conns: make(chan net.Conn), reply: writing(func() int64 { return 1 })}
		token := deployToWrite(t, w, p)
		w.after(time.Minute)
		w.agents.forget(testNode)
		p.down.Store(true)
		n := w.after(4 * time.Minute)
		w.wantState(n, store.DeployWait)
		if r := w.run(n.Run); !strings.Contains(r.WaitingFor, "the agent to answer") {
			t.Errorf("waiting for %q", r.WaitingFor)
		}
		n = w.after(2 * time.Minute)
		w.wantState(n, store.DeployFailed)
		if !strings.Contains(n.LastError, "write-image: the agent has gone: no heartbeat since") || strings.Contains(n.LastError, token) {
			t.Errorf("last_error is %q", n.LastError)
		}
	})
}

// TestALongOutageIsNoTimeout: what passes while the appliance is down counts
// for nothing.
func TestALongOutageIsNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		w.enroll(store.Available)
		w.provision("active")
		w.after(5 * time.Minute)
		w.saw("DHCP DISCOVER")
		w.stop()
		time.Sleep(3 * time.Hour)
		w.Conductor = New(w.config)
		w.start()
		n := w.after(9 * time.Minute)
		w.wantState(n, store.DeployWait)
		if w.m.starts() != 1 {
			t.Errorf("started %d times", w.m.starts())
		}
		w.after(2 * time.Minute)
		if w.m.starts() != 2 {
			t.Errorf("started %d times after ten silent minutes", w.m.starts())
		}
		divider := func(m *store.Message) bool { return m.Kind == store.Divider && m.Node == testNode }
		if ms, err := w.db.MessagesAfter(0, 0, divider); err != nil || len(ms) != 1 {
			t.Errorf("dividers: %+v (%v)", ms, err)
		}
	})
}

// TestASlowReadOfThePowerState does not overwrite what a run has done
// meanwhile, nor has it undone.
func TestASlowReadOfThePowerState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t, func(c *Config) { c.ForcePowerSync = true })
		w.enroll(store.Available, func(n *store.Node) { n.PowerState = store.PowerOn })
		read := w.get()
		if err := w.SetPower(t.Context(), testNode, store.PowerOff, 0); err != nil {
			t.Fatal(err)
		}
		w.after(time.Second)
		before := w.seen.all()
		w.recordPower(t.Context(), read, store.PowerOn, nil, 0)
		n := w.after(time.Minute)
		if n.PowerState != store.PowerOff || len(w.seen.all()) != len(before) {
			t.Errorf("power state %q; seen %v", n.PowerState, w.seen.all()[len(before):])
		}
	})
}

// TestPowerFaultComesAndGoes: three reads that fail put a node into
// maintenance, one that succeeds takes it out again.
func TestPowerFaultComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t, func(c *Config) { c.Timeouts.PowerSync = 2 * time.Minute })
		w.enroll(store.Active)
		w.m.act(bmc.On)
		if n := w.after(3 * time.Minute); n.PowerState != store.PowerOn {
			t.Fatalf("power state is %q", n.PowerState)
		}
		w.fail("power state", bmc.ErrUnreachable)
		if n := w.after(4 * time.Minute); n.Maintenance {
			t.Fatal("in maintenance after two misses")
		}
		n := w.after(2 * time.Minute)
		if !n.Maintenance || n.Fault != "power failure" || n.PowerState != store.PowerError || !strings.Contains(n.LastError, "3 times in a row") {
			t.Errorf("after three misses: %+v", n)
		}
		w.fail("", nil)
		n = w.after(2 * time.Minute)
		if n.Maintenance || n.Fault != "" || n.LastError != "" || n.PowerState != store.PowerOn {
			t.Errorf("after it is mended: %+v", n)
		}
		if got := w.seen.count("power on") + w.seen.count("power off"); got != 1 {
			t.Errorf("power sync has touched the machine: %v", w.seen.all())
		}
	})
}
