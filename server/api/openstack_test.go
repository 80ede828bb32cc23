package api

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"bessemer/server/auth"
	"bessemer/store"
)

// TestOpenStackCommand drives the API with OpenStack's own command line, the
// client that most of its users have. Each of its calls takes seconds, so that
// it runs only when asked for.
func TestOpenStackCommand(t *testing.T) {
	if _, err := exec.LookPath("openstack"); err != nil {
		t.Skip("the openstack command is not installed")
	}
	if os.Getenv("BESSEMER_SLOW") == "" {
		t.Skip("slow; set BESSEMER_SLOW=1 to run it")
	}
	for _, mode := range []string{auth.None, auth.Basic} {
		t.Run(mode, func(t *testing.T) { lifecycle(t, mode) })
	}
}

func lifecycle(t *testing.T, mode string) {
	g := newRig(t, mode)
	home := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "openstack", append([]string{"baremetal"}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "OS_ENDPOINT=" + g.url, "OS_AUTH_TYPE=none"}
		if mode == auth.Basic {
			cmd.Env = append(cmd.Env[:3], "OS_AUTH_TYPE=http_basic", "OS_USERNAME=admin", "OS_PASSWORD="+adminPassword)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("openstack baremetal %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	shows := func(field, want string) {
		t.Helper()
		var n map[string]any
		if err := json.Unmarshal([]byte(run("node", "show", "n1", "-f", "json")), &n); err != nil || n[field] != want {
			t.Errorf("%s is %v, want %s (%v)", field, n[field], want, err)
		}
	}
	run("node", "create", "--driver", "fake-hardware", "--name", "n1", "--driver-info", "fake_key=s3cret", "--resource-class", "baremetal")
	uuid := strings.TrimSpace(run("node", "show", "n1", "-f", "value", "-c", "uuid"))
	run("port", "create", "aa:bb:cc:00:00:01", "--node", uuid)
	if out := run("port", "list", "--node", "n1"); !strings.Contains(out, "aa:bb:cc:00:00:01") {
		t.Errorf("ports:\n%s", out)
	}
	run("node", "manage", "n1", "--wait", "10")
	run("node", "provide", "n1", "--wait", "10")
	run("node", "set", "n1", "--instance-info", "image_source=http://192.0.2.1/i.qcow2", "--property", "cpu_arch=x86_64")
	run("node", "validate", "n1")
	run("node", "deploy", "n1", "--config-drive", `{"meta_data":{"a":"b"}}`, "--wait", "10")
	shows("provision_state", "active")
	run("node", "power", "off", "n1")
	shows("power_state", "power off")
	run("node", "add", "trait", "n1", "CUSTOM_X")
	run("node", "boot", "device", "set", "n1", "pxe", "--persistent")
	run("node", "boot", "device", "show", "n1")
	run("node", "maintenance", "set", "n1", "--reason", "why")
	run("node", "maintenance", "unset", "n1")
	run("node", "undeploy", "n1", "--wait", "10")
	if out := run("node", "list", "--long"); !strings.Contains(out, "n1") || strings.Contains(out, "s3cret") {
		t.Errorf("nodes:\n%s", out)
	}
	run("driver", "list")
	run("driver", "show", "fake-hardware")
	run("conductor", "list")
	run("node", "delete", "n1")
	err := g.db.View(func(tx *store.Tx) error {
		if n := store.Nodes.Count(tx); n != 0 {
			t.Errorf("%d nodes are left", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
