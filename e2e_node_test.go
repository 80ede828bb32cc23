//go:build linux

package main_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bessemer/bmc/sim"
	"bessemer/bmc/sim/lab"
)

// A node is a machine of the rack that the appliance manages.
type node struct {
	rack       *rack
	name       string
	uuid       string
	machine    *sim.QEMU
	driver     string
	driverInfo map[string]any
}

const (
	userData     = "#!/bin/sh\necho yes >/run/user-data-ran\n"
	instanceUUID = "0d6f2a5e-1111-4222-8333-444455556666" // in meta_data.json
	vif          = "5ec3b7a0-2222-4333-8444-555566667777" // the instance's port in the tenant's network
)

func (n *node) mode() string { return n.machine.Spec().Modes[0] }

// enroll makes the node and its port.
func (n *node) enroll(t *testing.T) {
	t.Helper()
	var made struct{ UUID string }
	n.call(t, http.MethodPost, "/v1/nodes", map[string]any{
		"name": n.name, "driver": n.driver, "driver_info": n.driverInfo,
		"properties": map[string]any{
			"capabilities": "boot_mode:" + n.mode(),
			"root_device":  map[string]any{"serial": n.machine.Spec().Disks[0].Serial},
		},
	}, &made)
	n.uuid = made.UUID
	n.call(t, http.MethodPost, "/v1/ports", map[string]any{"node_uuid": n.uuid, "address": n.machine.Spec().NICs[0].MAC}, nil)
}

// provision sends a verb and waits for the state that it leads to.
func (n *node) provision(t *testing.T, verb string, more map[string]any, want string) {
	t.Helper()
	body := map[string]any{"target": verb}
	for k, v := range more {
		body[k] = v
	}
	n.call(t, http.MethodPut, "/v1/nodes/"+n.name+"/states/provision", body, nil)
	n.waitState(t, 15*time.Minute, want)
}

// startDeploy asks for a deployment as Nova does, and returns how much the
// console had said until then.
func (n *node) startDeploy(t *testing.T, image, host string) (mark int64) {
	t.Helper()
	img := n.rack.image(t, image)
	n.setImage(t, img.url, img.sha256)
	n.checkValid(t)
	n.call(t, http.MethodPost, "/v1/nodes/"+n.name+"/vifs", map[string]any{"id": vif}, nil)
	mark = lab.ConsoleSize(n.machine)
	n.call(t, http.MethodPut, "/v1/nodes/"+n.name+"/states/provision", map[string]any{
		"target": "active",
		"configdrive": map[string]any{
			"meta_data": map[string]any{"hostname": host, "uuid": instanceUUID},
			"user_data": userData,
		},
	}, nil)
	return mark
}

// show returns what the API shows of the node.
func (n *node) show(t *testing.T) (got map[string]any) {
	t.Helper()
	n.call(t, http.MethodGet, "/v1/nodes/"+n.name, nil, &got)
	return got
}

func (n *node) setImage(t *testing.T, url, sum string) {
	t.Helper()
	n.call(t, http.MethodPatch, "/v1/nodes/"+n.name, []map[string]any{
		{"op": "add", "path": "/instance_info/image_source", "value": url},
		{"op": "add", "path": "/instance_info/image_checksum", "value": sum},
	}, nil)
}

// checkValid asks whether the node can be deployed.
func (n *node) checkValid(t *testing.T) {
	t.Helper()
	var got map[string]struct {
		Result bool
		Reason string
	}
	n.call(t, http.MethodGet, "/v1/nodes/"+n.name+"/validate", nil, &got)
	for _, kind := range []string{"boot", "deploy", "management", "network", "power"} {
		if v := got[kind]; !v.Result {
			t.Fatalf("%s: its %s interface cannot do it: %s", n.name, kind, v.Reason)
		}
	}
}

// deploy writes an image and waits for its operating system to be up.
func (n *node) deploy(t *testing.T, image, host string) {
	t.Helper()
	start := time.Now()
	mark := n.startDeploy(t, image, host)
	n.waitState(t, 15*time.Minute, "active")
	t.Logf("%s: %s active after %.1f s", n.name, image, time.Since(start).Seconds())
	n.checkBooted(t, mark, driveFacts(host))
	t.Logf("%s: %s up after %.1f s", n.name, image, time.Since(start).Seconds())
}

// checkBooted reads the serial console: the deployed system is up, by the
// right firmware, with what its config drive says. It returns all that the
// system says.
func (n *node) checkBooted(t *testing.T, mark int64, want map[string]string) (got map[string]string) {
	t.Helper()
	got = lab.Facts(lab.WaitConsole(t, n.machine, mark, lab.Marker, 5*time.Minute))
	if got["fw"] != n.mode() {
		t.Errorf("%s: the deployed system was started by %q, want %q", n.name, got["fw"], n.mode())
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: the deployed system says %s=%q, want %q", n.name, k, got[k], v)
		}
	}
	return got
}

// driveFacts are what the deployed system says of the config drive that
// startDeploy gives.
func driveFacts(host string) map[string]string {
	return map[string]string{"host": host, "uuid": instanceUUID, "user_data": fmt.Sprintf("%x", sha256.Sum256([]byte(userData)))}
}

// waitState waits for one of the provision states, and fails at once when the
// node comes to rest in another one.
func (n *node) waitState(t *testing.T, within time.Duration, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	last, err := n.rack.app.client.WaitState(ctx, n.name, func(got map[string]any) bool {
		state, _ := got["provision_state"].(string)
		return slices.Contains(want, state) || strings.HasSuffix(state, "failed") || state == "error" || state == "active" ||
			state == "enroll" && got["last_error"] != nil
	}, nil)
	state, _ := last["provision_state"].(string)
	if err != nil || !slices.Contains(want, state) {
		said, _ := n.rack.app.cli(context.WithoutCancel(ctx), "node", "trace", n.name)
		t.Fatalf("node %s is %q, want %q: %v\nlast error: %v\npower: %v\ntrace:\n%s\nconsole:\n%s",
			n.name, state, want, err, last["last_error"], last["power_state"], said, tail(n.machine.Console(), 3000))
	}
}

// awaitStep waits until the node's run is at a step, or at a later one that is
// not in but, and returns the step's name; "" when the run ends before.
func (n *node) awaitStep(t *testing.T, step string, but []string) string {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		run := n.lastRun(t)
		if run.Outcome == "failed" || run.Outcome == "aborted" {
			t.Fatalf("the run %s %s: %s", run.Workflow, run.Outcome, run.Error)
		}
		if run.Outcome != "running" {
			return ""
		}
		if (run.Step == step || run.has(step)) && !slices.Contains(but, run.Step) {
			return run.Step
		}
	}
	t.Fatalf("the run did not come to step %s", step)
	return ""
}

type run struct {
	Workflow, Step, Outcome, Error string
	Steps                          []struct{ Name, Outcome string }
}

// has reports whether a step has ended, or has begun to wait.
func (r run) has(step string) bool {
	return slices.ContainsFunc(r.Steps, func(s struct{ Name, Outcome string }) bool { return s.Name == step })
}

func (n *node) lastRun(t *testing.T) run {
	t.Helper()
	var got struct{ Runs []run }
	n.call(t, http.MethodGet, "/api/v1/runs?limit=1&node="+n.uuid, nil, &got)
	if len(got.Runs) == 0 {
		t.Fatalf("node %s has no runs", n.name)
	}
	return got.Runs[0]
}

// runs counts the node's runs of a workflow.
func (n *node) runs(t *testing.T, workflow string) (count int) {
	t.Helper()
	var got struct{ Runs []run }
	n.call(t, http.MethodGet, "/api/v1/runs?node="+n.uuid, nil, &got)
	for _, r := range got.Runs {
		if r.Workflow == workflow {
			count++
		}
	}
	return count
}

func (n *node) call(t *testing.T, method, path string, in, out any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := n.rack.app.client.Call(ctx, method, path, in, out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// An image is a file of the image server.
type image struct {
	url, sha256 string
}

func (r *rack) image(t *testing.T, name string) image {
	t.Helper()
	sums, _, _ := strings.Cut(name, ".")
	sums += ".sha256"
	f, err := os.Open(filepath.Join(*imageDir, sums))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if sum, file, ok := strings.Cut(lines.Text(), "  "); ok && file == name {
			return image{r.images + name, sum}
		}
	}
	t.Fatalf("no %s in %s", name, sums)
	return image{}
}

// keepArtefacts copies what is worth a look into e2e-artifacts when the test
// has failed: the consoles, the logs and each node's trace.
func (r *rack) keepArtefacts() {
	if !r.t.Failed() {
		return
	}
	dir := filepath.Join("e2e-artifacts", r.t.Name())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Errorf("keep artefacts: %v", err)
		return
	}
	keep := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			r.t.Errorf("keep artefacts: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, n := range r.nodes {
		if b, err := os.ReadFile(n.machine.Console()); err == nil {
			keep(n.name+"-console.log", b)
		}
		for _, format := range []string{"text", "json"} {
			said, _ := r.app.cli(ctx, "node", "trace", n.name, "--format", format)
			keep(n.name+"-trace."+format, []byte(said))
		}
		starts, _ := json.MarshalIndent(n.machine.Starts(), "", "  ")
		keep(n.name+"-starts.json", starts)
	}
	logs, _ := filepath.Glob(filepath.Join(r.lab.Dir, "*.log"))
	for _, l := range logs {
		if b, err := os.ReadFile(l); err == nil {
			keep(filepath.Base(l), b)
		}
	}
	r.t.Logf("consoles, logs and traces are in %s", dir)
}
