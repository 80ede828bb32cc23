package conductor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"

	"bessemer/agent/wire"
)

// A testAgent is one boot of the ramdisk.
type testAgent struct {
	m      *machine
	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	server *httptest.Server
	token  string
	node   string
	beat   chan struct{}

	mu    sync.Mutex
	cmds  []wire.Command
	polls int // since the write began
}

func (a *testAgent) kill() { a.once.Do(a.init); a.cancel() }

func (a *testAgent) init() {
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.beat = make(chan struct{}, 1)
}

// run boots: it asks what to boot, looks itself up, and beats until killed.
func (a *testAgent) run(mute bool) func() {
	a.once.Do(a.init)
	return func() {
		var boot struct{ Action string }
		for a.call("GET", "/test/boot?mac="+a.m.mac, nil, &boot) != 200 {
			if !sleep(a.ctx, 10*time.Millisecond) {
				return
			}
		}
		a.m.journal("boots %s", boot.Action)
		if boot.Action != "ramdisk" || mute {
			return
		}
		if a.m.ramdisk != nil {
			a.m.ramdisk(a.ctx)
			return
		}
		var l wire.LookupResponse
		for {
			if a.call("GET", "/v1/lookup?addresses="+a.m.mac, nil, &l) == 200 {
				break
			}
			if !sleep(a.ctx, 10*time.Millisecond) {
				return
			}
		}
		if len(l.Config.AgentToken) < 32 {
			a.m.journal("lookup gives no token")
			return
		}
		a.token, a.node = l.Config.AgentToken, l.Node.UUID
		a.server = httptest.NewTLSServer(a)
		defer a.server.Close()
		a.m.booting.add(-1)
		for a.ctx.Err() == nil {
			code := a.call("POST", "/v1/heartbeat/"+a.node, a.heartbeat(), nil)
			wait := 300 * time.Millisecond
			if code != 202 {
				wait = 10 * time.Millisecond
			}
			select {
			case <-time.After(wait):
			case <-a.beat:
			case <-a.ctx.Done():
			}
		}
	}
}

func (a *testAgent) heartbeat() wire.Heartbeat {
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw})
	return wire.Heartbeat{CallbackURL: a.server.URL, AgentToken: a.token, AgentVersion: "test", AgentVerifyCA: string(cert)}
}

func (a *testAgent) call(method, path string, body, into any) int {
	text, _ := json.Marshal(body)
	ctx, cancel := context.WithTimeout(a.ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.m.api+path, bytes.NewReader(text))
	if err != nil {
		return 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if into != nil {
		_ = json.NewDecoder(resp.Body).Decode(into)
	}
	return resp.StatusCode
}

// ServeHTTP is the command API.
func (a *testAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.ctx.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	if r.URL.Query().Get("agent_token") != a.token {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"faultstring":"401 Unauthorized: Token invalid."}`)
		return
	}
	if r.Method == http.MethodGet {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.polls++
		_ = json.NewEncoder(w).Encode(wire.Commands{Commands: a.cmds})
		return
	}
	var req wire.CommandRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	cmd := a.start(req)
	a.m.mu.Lock()
	lose := a.m.loseReply[req.Name] > 0
	if lose {
		a.m.loseReply[req.Name]--
	}
	a.m.mu.Unlock()
	if lose {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(cmd)
}

// start carries out a command; long ones in the background.
func (a *testAgent) start(req wire.CommandRequest) wire.Command {
	_, short, _ := cut(req.Name, ".")
	step := ""
	if s, ok := req.Params["step"].(map[string]any); ok {
		step, _ = s["step"].(string)
	}
	a.m.journal("agent: %s", join(short, step))
	a.mu.Lock()
	defer a.mu.Unlock()
	cmd := wire.Command{ID: fmt.Sprint(len(a.cmds)), Name: short, Status: wire.Succeeded}
	a.cmds = append(a.cmds, cmd)
	i := len(a.cmds) - 1
	c := &a.cmds[i]
	if why := a.m.failure(req.Name, step); why != "" && step == "" {
		c.Status, c.Error = wire.Failed, &wire.CommandError{Message: why}
		return *c
	}
	switch short {
	case "get_deploy_steps":
		c.Result = offer("deploy_steps", wire.Step{Interface: "deploy", Step: "write_image"})
	case "get_clean_steps":
		c.Result = offer("clean_steps",
			wire.Step{Interface: "deploy", Step: "erase_devices", Priority: 10},
			wire.Step{Interface: "deploy", Step: "erase_devices_metadata", Priority: 99})
	case "get_partition_uuids":
		c.Result = map[string]any{"root uuid": "0x1"}
	case "collect_system_logs":
		c.Result = map[string]any{"system_logs": base64.StdEncoding.EncodeToString([]byte("logs"))}
	case "execute_deploy_step", "execute_clean_step", "install_bootloader":
		c.Status = wire.Running
		if step == "write_image" {
			a.polls = 0
		}
		go a.work(i, req, join(short, step), step)
	}
	return *c
}

// work is a long command: it writes the disk, or wipes it.
func (a *testAgent) work(i int, req wire.CommandRequest, what, step string) {
	why := a.m.failure(req.Name, step)
	var err error
	switch {
	case why != "":
		err = errors.New(why)
	case step == "write_image":
		a.m.writing.add(1)
		err = a.write(req.Params, i)
	case step == "erase_devices_metadata":
		a.m.mu.Lock()
		a.m.disk, a.m.drive = nil, nil
		a.m.mu.Unlock()
	}
	a.m.mu.Lock()
	hang := a.m.hang[step]
	a.m.mu.Unlock()
	if !sleep(a.ctx, a.m.writeTime) || hang {
		return
	}
	for a.m.polled && step == "write_image" && !a.wasPolled() && sleep(a.ctx, time.Millisecond) {
	}
	if step == "write_image" {
		a.m.writing.add(-1)
	}
	a.mu.Lock()
	c := &a.cmds[i]
	c.Status = wire.Succeeded
	if a.m.entry != nil && c.Name == "install_bootloader" {
		c.Result = map[string]any{"boot_entry": a.m.entry}
	}
	if err != nil {
		c.Status, c.Error = wire.Failed, &wire.CommandError{Message: err.Error()}
	}
	a.mu.Unlock()
	a.m.journal("agent: %s ended", what)
	select {
	case a.beat <- struct{}{}:
	default:
	}
}

func (a *testAgent) wasPolled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.polls > 0
}

// write downloads and checks the image, as an agent does.
func (a *testAgent) write(params map[string]any, i int) error {
	var p struct {
		Step struct {
			Args struct {
				ImageInfo   wire.ImageInfo `json:"image_info"`
				ConfigDrive string         `json:"configdrive"`
			} `json:"args"`
		} `json:"step"`
	}
	if err := decode(params, &p); err != nil {
		return err
	}
	info := p.Step.Args.ImageInfo
	image, err := a.get(info.URLs[0])
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.cmds[i].Progress = &wire.Progress{What: "writing", Done: int64(len(image)) / 2, Total: int64(len(image))}
	a.mu.Unlock()
	if sum := sha256.Sum256(image); hex.EncodeToString(sum[:]) != info.OSHashValue {
		return fmt.Errorf("checksum mismatch: got %x, want %s", sum, info.OSHashValue)
	}
	var drive []byte
	if p.Step.Args.ConfigDrive != "" {
		if drive, err = a.get(p.Step.Args.ConfigDrive); err != nil {
			return err
		}
	}
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	a.m.disk, a.m.drive = image, drive
	return nil
}

// get downloads, again and again while nobody answers, as an agent does.
func (a *testAgent) get(address string) (body []byte, err error) {
	for range 50 {
		if body, err = a.getOnce(address); err == nil || a.ctx.Err() != nil || isStatus(err) {
			break
		}
		sleep(a.ctx, 10*time.Millisecond)
	}
	return body, err
}

type statusError struct{ error }

func isStatus(err error) bool { return errors.As(err, &statusError{}) }

func (a *testAgent) getOnce(address string) ([]byte, error) {
	if _, err := url.Parse(address); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(a.ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return nil, statusError{fmt.Errorf("download %s: %s", address, resp.Status)}
	}
	return io.ReadAll(resp.Body)
}

func offer(list string, steps ...wire.Step) map[string]any {
	return map[string]any{
		list:                       map[string]any{"GenericHardwareManager": steps},
		"hardware_manager_version": map[string]any{"generic_hardware_manager": "1.2"},
	}
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + " " + b
}

func cut(s, sep string) (before, after string, ok bool) {
	if i := bytes.Index([]byte(s), []byte(sep)); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}
