package prove

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bessemer/store"
)

// patience is how long a test waits for what must happen. It is far longer
// than anything takes; nothing is asserted by it but that it does happen.
const patience = 2 * time.Minute

// An appliance is a process that is started again whenever it is killed.
type appliance struct {
	t        *testing.T
	dir      string // data directory
	api      string // URL
	settings []string
	log      string

	mu     sync.Mutex
	order  order // of the next start
	proc   *process
	deaths int
	fault  error // the process ended by itself
	closed bool
	watch  sync.WaitGroup
}

// A process is one start of the appliance.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ready chan struct{} // closed when it has opened everything, or has ended
	ended chan struct{}
}

// newAppliance starts an appliance whose data lies in dir. The settings are
// environment variables. It is ended with the test, and its store checked.
func newAppliance(t *testing.T, dir string, o order, settings ...string) *appliance {
	t.Helper()
	a := &appliance{t: t, dir: dir, order: o, log: filepath.Join(t.TempDir(), "log")}
	addr := freeAddr(t)
	a.api = "http://" + addr
	a.settings = append([]string{
		"BESSEMER_DATA_DIR=" + dir, "BESSEMER_API_LISTEN=" + addr, "BESSEMER_API_AUTH=none", "BESSEMER_LOG_LEVEL=info",
		"BESSEMER_RAMDISK_BUILD=never",
	}, settings...)
	t.Cleanup(a.end)
	a.begin()
	return a
}

// freeAddr returns a loopback address with a port that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start starts a process, and another one whenever it is killed.
func (a *appliance) start() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	log, err := os.OpenFile(a.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p, err := startProcess(a.order, log, a.settings...)
	if err != nil {
		return err
	}
	a.proc = p
	a.watch.Go(func() { a.afterwards(p) })
	return nil
}

// afterwards waits for a process to end, and starts another if it was killed.
func (a *appliance) afterwards(p *process) {
	err := p.cmd.Wait()
	close(p.ended)
	a.mu.Lock()
	if a.closed || a.proc != p {
		a.mu.Unlock()
		return
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		a.fault = fmt.Errorf("the appliance ended by itself: %v\n%s", err, tail(a.log))
		a.mu.Unlock()
		return
	}
	a.deaths++
	a.mu.Unlock()
	if err := a.start(); err != nil {
		a.mu.Lock()
		a.fault = err
		a.mu.Unlock()
	}
}

// startProcess starts this test binary with an order.
func startProcess(o order, log io.Writer, settings ...string) (*process, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(os.Args[0]), ready: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), orderVariable+"="+string(text)), settings...)
	p.cmd.Stderr = log
	if o.Hold != "" {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout = w
	p.stdin, err = p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	w.Close()
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go func() { // ends with the process
		defer out.Close()
		defer close(p.ready)
		_, _ = bufio.NewReader(out).ReadString('\n')
	}()
	return p, nil
}

func tail(name string) string {
	raw, _ := os.ReadFile(name)
	return string(raw[max(0, len(raw)-4000):])
}

// kill kills the process; another one starts. It returns false when there is
// none that could be killed.
func (a *appliance) kill() bool {
	a.mu.Lock()
	p := a.proc
	a.mu.Unlock()
	err := p.cmd.Process.Kill()
	<-p.ended
	return err == nil
}

// died returns how often the process was killed, and how it failed otherwise.
func (a *appliance) died() (deaths int, fault error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.deaths, a.fault
}

// again ends the process in good order and starts one with another order.
func (a *appliance) again(o order) {
	a.t.Helper()
	a.stop()
	a.mu.Lock()
	a.order, a.closed = o, false
	a.mu.Unlock()
	a.begin()
}

// begin starts a process and waits until it answers, or has ended.
func (a *appliance) begin() {
	a.t.Helper()
	if err := a.start(); err != nil {
		a.t.Fatal(err)
	}
	a.mu.Lock()
	p := a.proc
	a.mu.Unlock()
	<-p.ready
}

// await waits until the appliance answers again.
func (a *appliance) await() {
	a.until(http.MethodGet, "/healthz", nil, answer.ok)
}

// stop ends the process in good order.
func (a *appliance) stop() {
	a.mu.Lock()
	a.closed = true
	p := a.proc
	a.mu.Unlock()
	if p == nil {
		return
	}
	p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(patience):
		a.t.Errorf("the appliance does not end:\n%s", tail(a.log))
		_ = p.cmd.Process.Kill()
	}
	a.watch.Wait()
}

// end stops the appliance and checks the store that it leaves.
func (a *appliance) end() {
	a.stop()
	_, fault := a.died()
	if fault != nil {
		a.t.Error(fault)
	}
	problems, err := store.CheckFile(context.Background(), a.dir)
	if err != nil || len(problems) > 0 {
		a.t.Errorf("the store is damaged: %v %v", problems, err)
	}
	if a.t.Failed() {
		a.t.Logf("the appliance's log ends with:\n%s", tail(a.log))
	}
}

// An answer is what a request has led to.
type answer struct {
	status int // 0: there was no answer, and it is not known what was done
	body   []byte
	err    error
}

func (r answer) ok() bool { return r.status/100 == 2 }

// known says whether the request was surely carried out, or surely not.
func (r answer) known() bool { return r.status != 0 && r.status < 500 || r.ok() }

func (r answer) String() string {
	if r.status == 0 {
		return fmt.Sprint(r.err)
	}
	return fmt.Sprintf("%d %s", r.status, bytes.TrimSpace(r.body))
}

// into reads the answer's JSON.
func (r answer) into(v any) error {
	if !r.ok() {
		return errors.New(r.String())
	}
	return json.Unmarshal(r.body, v)
}

// perhaps is a client that does not connect again behind one's back.
var perhaps = &http.Client{
	Timeout:   30 * time.Second,
	Transport: &http.Transport{DisableKeepAlives: true},
}

// once sends a request once. in is JSON, or a reader of something else.
func (a *appliance) once(ctx context.Context, method, path string, in any) answer {
	return ask(ctx, perhaps, method, a.api+path, in)
}

// sized is a body whose length is announced.
type sized struct {
	io.Reader
	n int64
}

func ask(ctx context.Context, client *http.Client, method, url string, in any) answer {
	var body io.Reader
	var length int64
	switch in := in.(type) {
	case nil:
	case sized:
		body, length = in, in.n
	case io.Reader:
		body, length = in, -1
	default:
		raw, err := json.Marshal(in)
		if err != nil {
			return answer{err: err}
		}
		body, length = bytes.NewReader(raw), int64(len(raw))
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return answer{err: err}
	}
	req.ContentLength = length
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.82")
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{err: err} // cut off: a success that was not told whole
	}
	return answer{resp.StatusCode, raw, nil}
}

// must sends a request until the appliance has answered it, and fails the test
// when it refuses. It is for requests that may be repeated.
func (a *appliance) must(method, path string, in any) answer {
	a.t.Helper()
	r := a.until(method, path, in, func(r answer) bool { return r.ok() || r.status/100 == 4 && r.status != http.StatusConflict })
	if !r.ok() {
		a.t.Fatalf("%s %s: %s", method, path, r)
	}
	return r
}

// until sends a request again and again until its answer is as wanted.
func (a *appliance) until(method, path string, in any, wanted func(answer) bool) answer {
	a.t.Helper()
	var r answer
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if r = a.once(a.t.Context(), method, path, in); wanted(r) {
			return r
		}
		if _, fault := a.died(); fault != nil {
			a.t.Fatal(fault)
		}
	}
	a.t.Fatalf("%s %s is never answered as wanted, but with %s\n%s", method, path, r, tail(a.log))
	return r
}

// get fetches path into v.
func (a *appliance) get(path string, v any) {
	a.t.Helper()
	if err := a.must(http.MethodGet, path, nil).into(v); err != nil {
		a.t.Fatalf("GET %s: %v", path, err)
	}
}

// A node is what the API shows of one.
type node struct {
	UUID        string         `json:"uuid"`
	Name        string         `json:"name"`
	State       string         `json:"provision_state"`
	Target      string         `json:"target_provision_state"`
	Power       string         `json:"power_state"`
	Error       string         `json:"last_error"`
	Reserved    string         `json:"reservation"`
	Instance    string         `json:"instance_uuid"`
	Extra       map[string]any `json:"extra"`
	Maintenance bool           `json:"maintenance"`
}

func (a *appliance) node(ident string) (n node) {
	a.t.Helper()
	a.get("/v1/nodes/"+ident, &n)
	return n
}

// A patch is a JSON Patch of one value.
type patch []map[string]any

func set(path string, value any) patch {
	return patch{{"op": "add", "path": path, "value": value}}
}

// logged returns what the appliance has logged.
func (a *appliance) logged() string {
	raw, _ := os.ReadFile(a.log)
	return string(raw)
}

// panicked says whether the appliance has logged a panic.
func (a *appliance) panicked() bool { return strings.Contains(a.logged(), "goroutine ") }
