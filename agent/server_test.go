package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"bessemer/agent/wire"
)

func TestAnswersAsIronicPythonAgent(t *testing.T) {
	r := newRig(t).start()
	tok := "?agent_token=" + testToken
	unauthorized := `{"faultcode":"Client","faultstring":"401 Unauthorized: Token invalid."}`
	for _, tt := range []struct {
		method, path string
		body         any
		code         int
		want         string // the body, or a part of it
	}{
		{"GET", "/", nil, 200, `"default_version"`},
		{"GET", "/v1", nil, 200, `"id":"v1"`},
		{"GET", "/v1/", nil, 200, `"id":"v1"`},
		{"GET", "/v1/status", nil, 200, `"version":"1.0"`},
		{"GET", "/v1/status/", nil, 200, `"started_at":`},
		{"GET", "/v1/commands/", nil, 401, unauthorized},
		{"GET", "/v1/commands", nil, 401, unauthorized},
		{"GET", "/v1/commands/?agent_token=", nil, 401, unauthorized},
		{"GET", "/v1/commands/?agent_token=" + testToken[1:], nil, 401, unauthorized},
		{"GET", "/v1/commands/7?agent_token=x", nil, 401, unauthorized},
		{"POST", "/v1/commands/?wait=true", wire.CommandRequest{Name: "standby.get_partition_uuids"}, 401, unauthorized},
		{"POST", "/v1/commands/?wait=true", "not even JSON", 401, unauthorized},
		{"GET", "/v1/commands/" + tok, nil, 200, `{"commands":[]}`},
		{"GET", "/v1/commands" + tok, nil, 200, `{"commands":[]}`},
		{"GET", "/v1/commands/7" + tok, nil, 404, `{"faultcode":"Client","faultstring":"Not found: Command Result with id 7 not found."}`},
		{"POST", "/v1/commands/" + tok, wire.CommandRequest{Name: "nosuch.cmd"}, 404, `{"faultcode":"Client","faultstring":"Not found: Extension with id nosuch not found."}`},
		{"POST", "/v1/commands/" + tok, wire.CommandRequest{Name: "standby.nosuch"}, 400, `{"faultcode":"Client","faultstring":"Invalid command: Unknown command: nosuch"}`},
		{"POST", "/v1/commands/" + tok, wire.CommandRequest{Name: "plain"}, 400, `Invalid command: `},
		{"POST", "/v1/commands/" + tok, "{", 400, `Invalid command: Missing or invalid name or params`},
		{"POST", "/v1/commands/" + tok, "{}", 400, `Missing`},
		{"POST", "/v1/commands/" + tok, `{"name":"deploy.execute_deploy_step","params":{"step":7}}`, 400, `Invalid command parameters`},
		{"POST", "/v1/commands/" + tok, `{"name":"deploy.execute_deploy_step","params":{}}`, 400, `Malformed step`},
		{
			"POST", "/v1/commands/" + tok, `{"name":"standby.prepare_image","params":{"image_info":{"id":"x","urls":["http://127.0.0.1:1/x"]}}}`, 400,
			`{"faultcode":"Client","faultstring":"Invalid command parameters: Image checksum is not available, either the 'checksum' field or the 'os_hash_algo' and 'os_hash_value' fields pair must be set for image verification."}`,
		},
		{"POST", "/v1/commands/" + tok, `{"name":"standby.get_partition_uuids","params":{"bogus":1}}`, 200, `"command_status":"SUCCEEDED"`},
		{"POST", "/v1/commands/" + tok, `{"name":"standby.get_partition_uuids","params":null}`, 200, `"command_error":null,"command_result":{}`},
		{"GET", "/v2/", nil, 404, `"faultcode":"Client"`},
		{"DELETE", "/v1/commands/" + tok, nil, 405, ""},
	} {
		code, body := r.request(tt.method, tt.path, tt.body)
		if code != tt.code || !strings.Contains(body, tt.want) || strings.HasPrefix(tt.want, "{") && body != tt.want {
			t.Errorf("%s %s %v: %d %s\nwant %d %s", tt.method, tt.path, tt.body, code, body, tt.code, tt.want)
		}
	}
}

func TestTokenInAHeader(t *testing.T) {
	r := newRig(t).start()
	for token, want := range map[string]int{testToken: 200, "x": 401} {
		req, _ := http.NewRequest("GET", r.first.CallbackURL+"/v1/commands/", nil)
		req.Header.Set("X-Agent-Token", token)
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("token %q: %d, want %d", token, resp.StatusCode, want)
		}
	}
}

func TestBusyAndProgress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.gate = make(chan struct{})
	r.start()
	img := makeImage(t, nil)
	args := map[string]any{"image_info": imageInfo(r.server.put("img", img), img)}
	step := map[string]any{"step": map[string]any{"interface": "deploy", "step": "write_image", "args": args}, "node": map[string]any{}}
	c := r.command("deploy.execute_deploy_step", step, false)
	if c.Status != wire.Running {
		t.Fatalf("got %+v, want RUNNING", c)
	}
	code, body := r.request("POST", "/v1/commands/?wait=false&agent_token="+testToken, wire.CommandRequest{Name: "deploy.execute_deploy_step", Params: step})
	if code != 409 || body != `{"faultcode":"Client","faultstring":"Agent is busy: executing command execute_deploy_step"}` {
		t.Errorf("second command: %d %s", code, body)
	}
	for range maxJobs { // so many that the running one is the oldest of all remembered
		if c := r.command("poll.get_hardware_info", nil, true); c.Status != wire.Succeeded {
			t.Errorf("a quick command beside it: %+v", c)
		}
	}
	var p *wire.Progress
	for p == nil || p.Done == 0 {
		p = r.find(c.ID).Progress
	}
	if p.What != "write image" || p.Total != int64(len(img)) || p.Done > p.Total {
		t.Errorf("progress %+v", p)
	}
	for _, c := range r.commands() {
		if b, _ := json.Marshal(c); bytes.Contains(b, []byte("image_info")) {
			t.Errorf("a command shows its parameters: %s", b)
		}
	}
	close(r.server.gate)
	if code, body := r.request("GET", "/v1/commands/"+c.ID+"?wait=true&agent_token="+testToken, nil); code != 200 || !strings.Contains(body, `"SUCCEEDED"`) {
		t.Errorf("waiting: %d %s", code, body)
	}
}

func (r *rig) find(id string) wire.Command {
	for _, c := range r.commands() {
		if c.ID == id {
			return c
		}
	}
	r.t.Fatalf("command %s is not listed", id)
	return wire.Command{}
}

func TestUnknownStepAndVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	c := r.run("deploy.execute_deploy_step", map[string]any{"step": map[string]any{"interface": "deploy", "step": "nosuch_step"}})
	if c.Status != wire.Failed || !strings.Contains(c.Error.Details, "deploy.nosuch_step") {
		t.Errorf("unknown step: %+v %+v", c, c.Error)
	}
	c = r.run("clean.execute_clean_step", map[string]any{
		"step":          map[string]any{"interface": "deploy", "step": "erase_devices_metadata"},
		"clean_version": map[string]string{"generic_hardware_manager": "bad"},
	})
	if c.Status != wire.VersionMismatch {
		t.Errorf("other version: %+v, want CLEAN_VERSION_MISMATCH", c)
	}
}

// Who sees a command's end may send the next one at once.
func TestNextCommandAfterTheEnd(t *testing.T) {
	x := newExecutor(t.Context(), Config{}, nil, &node{}, &heart{}, newConsole(io.Discard))
	x.table = commands{"a.b": {async: true, run: func(context.Context, params, *job) (map[string]any, error) { return nil, nil }}}
	defer x.wg.Wait()
	for range 100_000 {
		if _, err := x.execute(t.Context(), wire.CommandRequest{Name: "a.b"}, true); err != nil {
			t.Fatal(err)
		}
	}
}

func TestResultsAreBounded(t *testing.T) {
	r := newRig(t).start()
	for range maxJobs + 10 {
		r.command("standby.get_partition_uuids", nil, true)
	}
	if n := len(r.commands()); n != maxJobs {
		t.Errorf("%d commands are remembered, want %d", n, maxJobs)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.machine.Hardware.Disks = append(r.machine.Hardware.Disks, wire.Disk{Name: "/dev/sdc", Size: 1 << 20, ReadOnly: true}, wire.Disk{Name: "/dev/sdd"})
	r.start()
	c := r.command("clean.get_clean_steps", nil, true)
	b, _ := json.Marshal(c.Result["clean_steps"])
	var steps map[string][]wire.Step
	if err := json.Unmarshal(b, &steps); err != nil {
		t.Fatal(err)
	}
	got := steps[hardwareManager]
	if len(got) != 2 || got[0].Step != "erase_devices_metadata" || got[0].Priority != 99 || got[1].Step != "erase_devices" || got[1].Priority != 10 {
		t.Errorf("clean steps %+v", got)
	}
	for _, name := range []string{"/dev/sda", "/dev/sdb"} {
		d, err := r.machine.OpenDisk(name, true)
		if err != nil {
			t.Fatal(err)
		}
		d.WriteAt([]byte("old"), 1024)
		d.Close()
	}
	c = r.cleanStep("erase_devices_metadata")
	if c.Status != wire.Succeeded {
		t.Fatalf("erase_devices_metadata: %+v", c.Error)
	}
	said := c.Result["clean_result"].(string)
	for _, want := range []string{"/dev/sda: metadata wiped", "/dev/sdb: metadata wiped", "/dev/sr0: skipped", "/dev/sdc: skipped: it is read-only", "/dev/sdd: skipped: it has no medium"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
	if c.Result["clean_step"].(map[string]any)["step"] != "erase_devices_metadata" {
		t.Errorf("clean_step %v", c.Result["clean_step"])
	}
	for _, name := range []string{"/dev/sda", "/dev/sdb"} {
		if b := r.diskBytes(name, 0, 2048); !bytes.Equal(b, make([]byte, 2048)) {
			t.Errorf("%s was not wiped", name)
		}
	}
	if c = r.cleanStep("erase_devices"); c.Status != wire.Failed || !strings.Contains(c.Error.Details, "/dev/sdc: is read-only") || !strings.Contains(c.Error.Details, "/dev/sda: erased") {
		t.Errorf("erase_devices with a read-only disk: %+v %+v", c, c.Error)
	}
	r.machine.Fault = func(op, disk string, _, _ int64) error {
		if op == "zero" && disk == "/dev/sda" {
			return errors.New("medium error")
		}
		return nil
	}
	c = r.cleanStep("erase_devices_metadata")
	if c.Status != wire.Failed || !strings.Contains(c.Error.Details, "/dev/sda: ") || !strings.Contains(c.Error.Details, "medium error") || !strings.Contains(c.Error.Details, "/dev/sdb: metadata wiped") {
		t.Errorf("failing disk: %+v", c.Error)
	}
}

func (r *rig) cleanStep(name string) wire.Command {
	return r.run("clean.execute_clean_step", map[string]any{
		"step": map[string]any{"interface": "deploy", "step": name}, "clean_version": stepsVersion,
	})
}

func TestCollectLogs(t *testing.T) {
	r := newRig(t).start()
	c := r.command("log.collect_system_logs", nil, true)
	raw, err := base64.StdEncoding.DecodeString(c.Result["system_logs"].(string))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	tr := tar.NewReader(z)
	h, err := tr.Next()
	if err != nil || h.Name != "logs/kmsg" {
		t.Fatalf("%v, %v", h, err)
	}
	if b, _ := io.ReadAll(tr); string(b) != "hello from the kernel\n" {
		t.Errorf("got %q", b)
	}
}

func TestTailOfALongLog(t *testing.T) {
	long := strings.Repeat("x", 3000) + "end"
	b, err := tail(io.MultiReader(strings.NewReader(long), strings.NewReader(long)), 1000)
	if err != nil || len(b) != 1000 || !strings.HasSuffix(string(b), "xend") {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
}

func TestLockdown(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	r.command("system.lockdown", nil, true)
	deadline := time.Now().Add(5 * time.Second)
	for {
		req, _ := http.NewRequestWithContext(context.Background(), "GET", r.first.CallbackURL+"/v1/status", nil)
		resp, err := r.client.Do(req)
		if err != nil {
			break
		}
		resp.Body.Close()
		if time.Now().After(deadline) {
			t.Fatal("commands are still served")
		}
	}
	select {
	case err := <-r.ended:
		r.ended <- err
		t.Errorf("the agent ended with %v; a locked down machine stays as it is", err)
	default:
	}
}

func TestReboot(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	r.command("standby.run_image", nil, false)
	if err := <-r.ended; err != nil {
		t.Errorf("agent ended with %v", err)
	}
	r.ended <- nil
	if a := r.machine.Actions(); a[len(a)-1] != "reboot" {
		t.Errorf("the machine saw %q", a)
	}
}

func TestPowerOffThatFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.machine.OnPowerOff = nil
	r.start()
	if c := r.run("standby.power_off", nil); c.Status != wire.Failed || !strings.Contains(c.Error.Details, "power off") {
		t.Errorf("got %+v, want a failure", c)
	}
}
