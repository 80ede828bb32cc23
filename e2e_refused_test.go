//go:build linux

package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bessemer/server/client"
)

// A refusal is a request that is refused, as a client sends it.
type refusal struct {
	name, method, path string
	version, body      string
	status             int
	says               []string
}

// checkRefusals sends what no request may be like.
func checkRefusals(t *testing.T, n *node) {
	mac := n.machine.Spec().NICs[0].MAC
	provision := "/v1/nodes/" + n.name + "/states/provision"
	port := func(address string) string { return fmt.Sprintf(`{"node_uuid": %q, "address": %q}`, n.uuid, address) }
	for _, r := range []refusal{
		{"malformed JSON", "POST", "/v1/nodes", "", `{"driver": "ipmi", `, 400, []string{"body is not valid JSON"}},
		{"not an object", "POST", "/v1/nodes", "", `["ipmi"]`, 400, []string{"must not be an array"}},
		{"nested too deep", "POST", "/v1/nodes", "", strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000), 400, []string{"nests deeper than the 25 levels"}},
		{"unknown microversion", "GET", "/v1/nodes", "1.999", "", 406, []string{"Version 1.999 was requested but is not supported", "[1.1, 1.82]"}},
		{"no microversion", "GET", "/v1/nodes", "newest", "", 406, []string{"X-OpenStack-Ironic-API-Version", "1.N or latest"}},
		{"duplicate name", "POST", "/v1/nodes", "", `{"driver": "fake-hardware", "name": "` + n.name + `"}`, 409, []string{n.name, "exists"}},
		{"duplicate MAC", "POST", "/v1/ports", "", port(mac), 409, []string{mac, "exists"}},
		{"the MAC in capitals", "POST", "/v1/ports", "", port(strings.ToUpper(mac)), 409, []string{mac, "exists"}},
		{"not a MAC", "POST", "/v1/ports", "", port("52:54:00"), 400, []string{"52:54:00", "MAC address"}},
		{"port of no node", "POST", "/v1/ports", "", `{"node_uuid": "5ec3b7a0-0000-4000-8000-000000000000", "address": "52:54:00:00:00:77"}`, 400, []string{"5ec3b7a0-0000-4000-8000-000000000000"}},
		{"unknown driver", "POST", "/v1/nodes", "", `{"driver": "floppy"}`, 400, []string{"floppy", "redfish", "ipmi"}},
		{"unknown field", "POST", "/v1/nodes", "", `{"driver": "ipmi", "colour": "red"}`, 400, []string{"colour"}},
		{"patch of what is not there", "PATCH", "/v1/nodes/" + n.name, "", `[{"op": "remove", "path": "/extra/nothing"}]`, 400, []string{"nothing"}},
		{"patch of a state", "PATCH", "/v1/nodes/" + n.name, "", `[{"op": "replace", "path": "/provision_state", "value": "active"}]`, 400, []string{"provision_state"}},
		{"no such node", "GET", "/v1/nodes/nosuch", "", "", 404, []string{"nosuch", "could not be found"}},
		{"deploy without image", "PUT", provision, "", `{"target": "active"}`, 400, []string{"no image_source", "bessemer image add"}},
		{"state that is not to be asked for", "PUT", provision, "", `{"target": "rebuild"}`, 400, []string{"rebuild", "available"}},
		{"no such target", "PUT", provision, "", `{"target": "explode"}`, 400, []string{"explode"}},
		{"config drive that is none", "PUT", provision, "", `{"target": "active", "configdrive": {"metadata": {}}}`, 400, []string{"configdrive", "metadata"}},
		{"power state", "PUT", "/v1/nodes/" + n.name + "/states/power", "", `{"target": "sideways"}`, 400, []string{"sideways"}},
		{"wrong password", "GET", "/v1/nodes", "", "", 401, []string{"Incorrect user name or password"}},
	} {
		t.Run(r.name, func(t *testing.T) { checkRefusal(t, n.rack.app, r) })
	}
}

// checkRefusal sends a request that is to be refused: with what is expected of
// it, and nothing changed.
func checkRefusal(t *testing.T, a *appliance, r refusal) {
	t.Helper()
	before := a.everything(t)
	password := a.client.Password
	if r.status == http.StatusUnauthorized {
		password = "wrong"
	}
	status, said := a.send(t, r, password)
	t.Logf("%d %s", status, said)
	if status != r.status {
		t.Errorf("status %d, want %d", status, r.status)
	}
	for _, want := range r.says {
		if !strings.Contains(said, want) {
			t.Errorf("the answer does not say %q", want)
		}
	}
	if d := cmp.Diff(before, a.everything(t)); d != "" {
		t.Errorf("it has changed something (-before +after):\n%s", d)
	}
}

// send sends a request and returns the answer's status and its text, of which
// JSON in JSON is unpacked.
func (a *appliance) send(t *testing.T, r refusal, password string) (status int, said string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method, a.url+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	version := client.Microversion
	if r.version != "" {
		version = r.version
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", version)
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth(a.client.User, password)
	resp, err := a.client.HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	var ironic struct {
		ErrorMessage any `json:"error_message"`
	}
	if json.Unmarshal(b, &ironic) == nil && ironic.ErrorMessage != nil {
		return resp.StatusCode, strings.ReplaceAll(fmt.Sprint(ironic.ErrorMessage), `\"`, `"`)
	}
	return resp.StatusCode, string(b)
}

// everything is what the API shows of all nodes and ports.
func (a *appliance) everything(t *testing.T) (all map[string]any) {
	t.Helper()
	all = map[string]any{}
	for _, path := range []string{"/v1/nodes/detail", "/v1/ports/detail"} {
		var got map[string]any
		if err := a.client.Get(t.Context(), path, &got); err != nil {
			t.Fatal(err)
		}
		dropUpdated(got)
		all[path] = got
	}
	return all
}

// dropUpdated takes the times of the last change out of a list: the appliance
// itself saves what a power reading or the end of a run has told it.
func dropUpdated(list map[string]any) {
	for _, items := range list {
		items, _ := items.([]any)
		for _, item := range items {
			if m, ok := item.(map[string]any); ok {
				delete(m, "updated_at")
			}
		}
	}
}

// checkImageRefusals asks for deployments of images that are refused before
// the machine is touched.
func checkImageRefusals(t *testing.T, n *node, b *badImages) {
	good := n.rack.image(t, "tiny.raw")
	appliance := "http://192.0.2.1:6386/boot/script"
	for _, i := range []struct {
		name, source, sum string
		says              []string
	}{
		{"backing file", b.url + "backing.qcow2", b.sums["backing.qcow2"], []string{"qcow2", "backing file"}},
		{"data file", b.url + "datafile.qcow2", b.sums["datafile.qcow2"], []string{"qcow2", "in another file"}},
		{"encryption", b.url + "encrypted.qcow2", b.sums["encrypted.qcow2"], []string{"qcow2", "encrypted"}},
		{"absurd header", b.url + "absurd.qcow2", b.sums["absurd.qcow2"], []string{"qcow2", "63"}},
		{"file URL", "file:///etc/passwd", good.sha256, []string{"file", "http or https"}},
		{"loopback", "http://127.0.0.1:80/v1", good.sha256, []string{"127.0.0.1", "loopback"}},
		{"loopback by name", "http://localhost:6385/v1", good.sha256, []string{"localhost", "loopback"}},
		{"loopback of IPv6", "http://[::1]:6385/v1", good.sha256, []string{"::1", "loopback"}},
		{"loopback as a number", "http://2130706433/", good.sha256, []string{"2130706433"}},
		{"link-local", "http://169.254.169.254/latest/meta-data", good.sha256, []string{"169.254.169.254", "link-local"}},
		{"own listener", appliance, good.sha256, []string{"192.0.2.1", "listener of this service"}},
		{"redirect to loopback", b.url + "to-loopback.raw", good.sha256, []string{"redirect", "127.0.0.1", "loopback"}},
		{"password in the URL", "http://user:secret@192.0.2.2/os.raw", good.sha256, []string{"user or password in the URL"}},
		{"nothing there", b.url + "nothing.raw", good.sha256, []string{"nothing.raw", "404", "check the URL"}},
		{"no server", "http://192.0.2.2:9/os.raw", good.sha256, []string{"192.0.2.2:9", "refused"}},
		{"no checksum", good.url, "", []string{"checksum", "image_checksum"}},
		{"MD5", good.url, "d41d8cd98f00b204e9800998ecf8427e", []string{"md5", "SHA-256"}},
		{"not a checksum", good.url, "abc", []string{"image_checksum", "SHA-256"}},
		{"no such kept image", "nosuch", "", []string{"nosuch", "bessemer image add"}},
	} {
		t.Run(i.name, func(t *testing.T) {
			n.setImage(t, i.source, i.sum)
			r := refusal{method: "PUT", path: "/v1/nodes/" + n.name + "/states/provision", body: `{"target": "active"}`, status: 400, says: i.says}
			checkRefusal(t, n.rack.app, r)
		})
	}
	n.call(t, http.MethodPatch, "/v1/nodes/"+n.name, []map[string]any{{"op": "remove", "path": "/instance_info"}}, nil)
}

// checkCommandLine asks for the same by the command line, which tells kinds of
// failure apart by its exit code.
func checkCommandLine(t *testing.T, n *node) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"node deploy " + n.name, 1, "image_source"},
		{"node deploy " + n.name + " --image file:///etc/passwd --checksum " + strings.Repeat("0", 64), 1, "http or https"},
		{"node create " + n.name + " --driver fake-hardware", 5, n.name},
		{"node show nosuch", 3, "nosuch"},
		{"node deploy", 2, "NODE"},
		{"image add file:///etc/passwd", 1, "http or https"},
	} {
		out, err := n.rack.app.cli(t.Context(), strings.Fields(c.args)...)
		code := 0
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			code = e.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: exit code %d: %s", c.args, code, strings.TrimSpace(out))
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit code %d, want %d and %q", c.args, code, c.code, c.says)
		}
	}
	n.call(t, http.MethodPatch, "/v1/nodes/"+n.name, []map[string]any{{"op": "remove", "path": "/instance_info"}}, nil)
}
