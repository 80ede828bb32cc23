package conductor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// Environment of the process that is killed.
const (
	crashDir = "CONDUCTOR_CRASH_DIR" // holds the store and the list of points where it has died
	crashBMC = "CONDUCTOR_CRASH_BMC" // URL of the controllers
	crashAPI = "CONDUCTOR_CRASH_API" // URL of its own listener, which is file 3
)

// TestKilledAfterEveryStep kills the appliance's process with SIGKILL at every
// point of every step of every workflow: before the step's effect, after it
// and before the journal, after the journal, and while a restart goes on with
// what was left. Each workflow must reach its goal all
// the same, with the same diagram, and the world outside must not notice.
func TestKilledAfterEveryStep(t *testing.T) {
	if os.Getenv(crashDir) != "" {
		t.Skip("this is the process that is killed")
	}
	tests := []struct {
		name    string
		from    store.ProvisionState
		request ProvisionRequest
		power   store.PowerState // instead of a request
		source  string
		want    store.ProvisionState
		once    []string // must have happened exactly once
		boots   int
	}{
		{name: "verify", from: store.Enroll, request: ProvisionRequest{Target: "manage"}, want: store.Manageable},
		{
			name: "clean", from: store.Manageable, request: ProvisionRequest{Target: "provide"}, want: store.Available,
			once: []string{"agent: execute_clean_step erase_devices_metadata"}, boots: 1,
		},
		{
			name: "deploy", from: store.Available, want: store.Active, boots: 2,
			request: ProvisionRequest{Target: "active", ConfigDrive: map[string]any{"user_data": "x"}},
			once:    []string{"agent: execute_deploy_step write_image", "agent: install_bootloader"},
		},
		{
			name: "failed-deploy", from: store.Available, request: ProvisionRequest{Target: "active"}, source: "wrong sum",
			want: store.DeployFailed, once: []string{"agent: execute_deploy_step write_image"}, boots: 1,
		},
		{
			name: "rebuild", from: store.Active, request: ProvisionRequest{Target: "rebuild"}, want: store.Active, boots: 2,
			once: []string{"agent: execute_deploy_step write_image"},
		},
		{
			name: "undeploy", from: store.Active, request: ProvisionRequest{Target: "deleted"}, want: store.Available, boots: 1,
			once: []string{"agent: execute_clean_step erase_devices_metadata"},
		},
		{
			name: "manual-clean", from: store.Manageable, want: store.Manageable, boots: 1,
			request: ProvisionRequest{Target: "clean", CleanSteps: []StepRequest{
				{Interface: "deploy", Step: "erase_devices"}, {Interface: "deploy", Step: "erase_devices_metadata"},
			}},
			once: []string{"agent: execute_clean_step erase_devices", "agent: execute_clean_step erase_devices_metadata"},
		},
		{name: "fake-deploy", from: store.Available, request: ProvisionRequest{Target: "active"}, source: "fake", want: store.Active, boots: 1},
		{name: "reboot", from: store.Active, power: store.Rebooting, want: store.Active, boots: 1},
		{name: "power-off", from: store.Active, power: store.PowerOff, want: store.Active},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCrash(t)
			c.prepare(tt.from, tt.source, func(cond *Conductor) error {
				if tt.power != "" {
					return cond.SetPower(t.Context(), testNode, tt.power, 0)
				}
				return cond.Provision(t.Context(), testNode, tt.request)
			})
			deaths := c.runUntilDone()
			t.Logf("killed %d times", deaths)
			db := c.open()
			n := c.node(db)
			if n.ProvisionState != tt.want || n.Run != 0 || n.Reservation != nil {
				t.Errorf("node is %q (%s), want %q", n.ProvisionState, n.LastError, tt.want)
			}
			lost := c.seen.count("lookup gives no token") // killed between the token and its answer: one more start
			if c.m.starts() != tt.boots+lost {
				t.Errorf("started %d times, want %d; seen:\n%s", c.m.starts(), tt.boots, strings.Join(c.seen.all(), "\n"))
			}
			for _, line := range tt.once {
				if got := c.seen.count(line); got != 1 {
					t.Errorf("%q happened %d times; seen:\n%s", line, got, strings.Join(c.seen.all(), "\n"))
				}
			}
			disk, _ := c.m.content()
			if tt.want == store.Active && tt.power == "" && tt.source == "" && !bytes.Equal(disk, testImage) {
				t.Error("the image is not on the disk")
			}
			golden(t, "killed-"+tt.name+".seq", unique(diagram(t, db)))
		})
	}
}

// unique drops every line that was there before: what a killed process draws
// twice is not a difference. Polls and what the node does come as they come,
// and the last moments of such may be lost.
func unique(text string) string {
	var b strings.Builder
	had := map[string]bool{}
	for line := range strings.Lines(text) {
		if !had[line] && !comesAndGoes(line) {
			b.WriteString(line)
		}
		had[line] = true
	}
	return b.String()
}

func comesAndGoes(line string) bool {
	if strings.HasPrefix(line, "Node") || strings.Contains(line, "-> Node: Pass UUID") {
		return true
	}
	for _, label := range []string{
		store.LabelCommandStatus, store.LabelStillWorking, store.LabelHeartbeat, store.LabelIsDeployDone, store.LabelDeployDone,
		store.LabelIsCleanDone, store.LabelCleanDone,
	} {
		if strings.HasSuffix(strings.TrimSpace(line), ": "+label) {
			return true
		}
	}
	return false
}

// A crash is the world outside the process that is killed: the machine, its
// controller, and the listener that the processes inherit.
type crash struct {
	t        *testing.T
	dir      string
	m        *machine
	seen     *worldJournal
	bmc      *httptest.Server
	listener *net.TCPListener
}

func newCrash(t *testing.T) *crash {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	c := &crash{t: t, dir: t.TempDir(), seen: &worldJournal{}, listener: l}
	c.m = newMachine(testMAC, "http://"+l.Addr().String(), c.seen.add)
	c.m.writeTime = 5 * time.Millisecond
	c.bmc = httptest.NewServer(http.HandlerFunc(c.serveBMC))
	t.Cleanup(func() { c.m.stop(); c.bmc.Close(); l.Close() })
	if err := os.WriteFile(filepath.Join(c.dir, "img"), testImage, 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// serveBMC is the machine's controller over HTTP.
func (c *crash) serveBMC(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/power":
		c.m.act(bmc.PowerAction(r.FormValue("action")))
	case "/state":
		_ = json.NewEncoder(w).Encode(c.m.state())
	case "/setboot":
		var b bmc.Boot
		_ = json.NewDecoder(r.Body).Decode(&b)
		c.m.setBoot(b)
	case "/boot":
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		_ = json.NewEncoder(w).Encode(c.m.boot)
	}
}

// open opens the store that the killed processes used.
func (c *crash) open() *store.DB {
	db, err := store.Open(c.dir, store.Options{NoSync: true})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { db.Close() })
	problems, err := db.Check(context.Background())
	if err != nil || len(problems) > 0 {
		c.t.Errorf("the store is damaged: %v %v", problems, err)
	}
	return db
}

func (c *crash) node(db *store.DB) (n *store.Node) {
	err := db.View(func(tx *store.Tx) (err error) {
		n, err = store.Nodes.Get(tx, testNode)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// prepare enrolls the node and makes the request, in a conductor that runs
// nothing.
func (c *crash) prepare(from store.ProvisionState, source string, request func(*Conductor) error) {
	db, err := store.Open(c.dir, store.Options{NoSync: true})
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	addNode(c.t, db, testNode, testPort, testMAC, from, func(n *store.Node) {
		switch source {
		case "":
		case "fake":
			n.Interfaces = map[string]string{"deploy": "fake"}
		default:
			n.InstanceInfo["image_source"] = source
		}
	})
	types := bmc.Types{"test": testType(nil, func(bmc.Target) *machine { return c.m })}
	cond := New(testConfig(db, types, c.dir, c.m.api))
	if err := request(cond); err != nil {
		c.t.Fatal(err)
	}
}

// runUntilDone starts the process again and again until it ends by itself.
func (c *crash) runUntilDone() (deaths int) {
	f, err := c.listener.File()
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	for ; deaths < 300; deaths++ {
		ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCrashingProcess$", "-test.count=1")
		cmd.Env = append(os.Environ(), crashDir+"="+c.dir, crashBMC+"="+c.bmc.URL, crashAPI+"="+c.m.api)
		cmd.ExtraFiles = []*os.File{f}
		out, err := cmd.CombinedOutput()
		late := ctx.Err()
		cancel()
		var exit *exec.ExitError
		switch {
		case err == nil:
			return deaths
		case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL && late == nil:
		default:
			c.t.Fatalf("the process ended with %v:\n%s\nseen:\n%s", err, out, strings.Join(c.seen.all(), "\n"))
		}
	}
	c.t.Fatal("the process still dies after 300 starts")
	return deaths
}

// TestCrashingProcess is the process that is killed. It runs the conductor
// until the node rests, and dies at each point where none has died yet.
func TestCrashingProcess(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("started by TestKilledAfterEveryStep")
	}
	db, err := store.Open(dir, store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	types := bmc.Types{"test": {Open: func(bmc.Target) (bmc.Driver, error) { return remoteBMC(os.Getenv(crashBMC)), nil }}}
	types["test"] = bmc.Type{Open: types["test"].Open, Interfaces: testType(nil, nil).Interfaces}
	ended := make(chan struct{}, 1)
	c := New(testConfig(db, types, dir, os.Getenv(crashAPI), func(c *Config) {
		c.Crash = func(where, point string) {
			dieOnce(t, dir, where+" "+point)
			select {
			case ended <- struct{}{}:
			default:
			}
		}
	}))
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: testAPI(c), ReadHeaderTimeout: time.Second}
	go server.Serve(l)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if n, err := c.node(testNode); err == nil && n.Run == 0 {
				return
			}
			select {
			case <-ended:
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if n, err := c.node(testNode); err != nil || n.Run != 0 {
		t.Fatalf("the run has not ended: %+v %v", n, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// dieOnce kills this process at a point where none has died before.
func dieOnce(t *testing.T, dir, point string) {
	name := filepath.Join(dir, "points")
	points, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
		return
	}
	if bytes.Contains(points, []byte(point+"\n")) {
		return
	}
	if err := os.WriteFile(name, append(points, point+"\n"...), 0o600); err != nil {
		t.Error(err)
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

// remoteBMC is a driver for the controller of another process.
type remoteBMC string

func (r remoteBMC) call(ctx context.Context, path string, body any, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, string(r)+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

func (r remoteBMC) Identify(context.Context) (bmc.Info, error) { return bmc.Info{}, nil }

func (r remoteBMC) PowerState(ctx context.Context) (store.PowerState, error) {
	var s store.PowerState
	err := r.call(ctx, "/state", nil, &s)
	return s, err
}

func (r remoteBMC) Power(ctx context.Context, a bmc.PowerAction) error {
	return r.call(ctx, "/power?action="+strings.ReplaceAll(string(a), " ", "+"), nil, nil)
}

func (r remoteBMC) Boot(ctx context.Context) (bmc.Boot, error) {
	var b bmc.Boot
	err := r.call(ctx, "/boot", nil, &b)
	return b, err
}

func (r remoteBMC) SetBoot(ctx context.Context, b bmc.Boot) error {
	return r.call(ctx, "/setboot", b, nil)
}

func (r remoteBMC) BootDevices(context.Context) ([]bmc.BootDevice, error) { return nil, nil }

func (r remoteBMC) Close() error { return nil }
