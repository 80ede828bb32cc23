package configs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite example.yaml")

// render writes the example: every setting, commented, with its default.
func render() string {
	var b strings.Builder
	b.WriteString("# Bessemer's settings, each with its default. A setting may also be given in the\n" +
		"# environment (api.listen is BESSEMER_API_LISTEN) or as a flag (--api-listen);\n" +
		"# flags win over the environment, the environment over this file.\n")
	c := Default()
	section := ""
	for _, s := range Settings(&c) {
		name, leaf, nested := strings.Cut(s.Key, ".")
		indent := ""
		if !nested {
			leaf = name
		} else {
			indent = "  "
			if name != section {
				fmt.Fprintf(&b, "\n%s:\n", name)
				section = name
			}
		}
		fmt.Fprintf(&b, "%s# %s\n%s%s: %s\n", indent, s.Help, indent, leaf, yamlValue(s))
	}
	return b.String()
}

func yamlValue(s Setting) string {
	switch v := s.v.Interface().(type) {
	case []string:
		quoted := make([]string, len(v))
		for i, x := range v {
			quoted[i] = fmt.Sprintf("%q", x)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case string:
		if v == "" {
			return `""`
		}
	}
	return s.String()
}

func TestExampleIsTheDefaults(t *testing.T) {
	if *update {
		if err := os.WriteFile("example.yaml", []byte(render()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load("example.yaml", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Default(), c); d != "" {
		t.Errorf("example.yaml differs from the defaults:\n%s", d)
	}
	raw, _ := os.ReadFile("example.yaml")
	for _, s := range Settings(&c) {
		leaf := s.Key[strings.LastIndex(s.Key, ".")+1:]
		if !strings.Contains(string(raw), "# "+s.Help+"\n") || !strings.Contains(string(raw), leaf+":") {
			t.Errorf("example.yaml lacks %s with its help", s.Key)
		}
		if s.Help == "" {
			t.Errorf("%s has no help", s.Key)
		}
	}
}

func TestFileEnvironmentFlagsInThatOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := "data_dir: /srv/b\napi:\n  listen: 127.0.0.1:1\n  hosts: [a, b]\nconductor:\n  workers: 3\n  deploy_timeout: 90s\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, []string{"BESSEMER_API_LISTEN=127.0.0.1:2", "BESSEMER_CONDUCTOR_WORKERS=4", "HOME=/root"}, map[string]string{"api-listen": "127.0.0.1:3"})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.DataDir = "/srv/b"
	want.API.Listen = "127.0.0.1:3"
	want.API.Hosts = []string{"a", "b"}
	want.Conductor.Workers = 4
	want.Conductor.DeployTimeout = Duration(90 * time.Second)
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := "api:\n  listn: x\n  listen: nowhere\nlog: 7\ndhcp:\n  mode: both\nconductor:\n  workers: many\nnosuch: 1\nlease_time: 5\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(file, []string{"BESSEMER_NONE=1", "BESSEMER_BMC_CALL_TIMEOUT=soon"}, map[string]string{"api-auth": "maybe"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"c.yaml:2: unknown setting api.listn", `api.listen: "nowhere"`, "c.yaml:4: log is a section", `dhcp.mode: "both"`,
		`c.yaml:8: conductor.workers: "many"`, "c.yaml:9: unknown setting nosuch", "did you mean dhcp.lease_time?",
		"BESSEMER_NONE is no setting", "BESSEMER_BMC_CALL_TIMEOUT", `api.auth: "maybe"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

func TestNoAuthenticationOnlyOnLoopback(t *testing.T) {
	tests := []struct {
		listen string
		ok     bool
	}{
		{"127.0.0.1:6385", true},
		{"[::1]:6385", true},
		{"localhost:1", true},
		{"0.0.0.0:6385", false},
		{":6385", false},
		{"192.0.2.1:6385", false},
		{"[::]:1", false},
	}
	for _, tt := range tests {
		c := Default()
		c.API.Listen, c.API.Auth = tt.listen, "none"
		if err := c.Validate(); (err == nil) != tt.ok {
			t.Errorf("%s without authentication: got %v, want ok %v", tt.listen, err, tt.ok)
		}
	}
}

func TestSimulatedNetwork(t *testing.T) {
	tests := []struct {
		change func(*Config)
		fault  string
	}{
		{func(c *Config) {}, ""},
		{func(c *Config) { c.Provisioning.Port = 0 }, ""},
		{func(c *Config) { c.Provisioning.Address = "127.0.0.1" }, ""},
		{func(c *Config) { c.Provisioning.Port = -1 }, "provisioning.port: -1"},
		{func(c *Config) { c.Provisioning.Address = "192.0.2.1" }, "provisioning.address"},
		{func(c *Config) { c.DHCP.Mode = "proxy" }, "dhcp.mode"},
		{func(c *Config) { c.Provisioning.Interface, c.Provisioning.Port = "eth1", 0 }, "provisioning.port: 0"},
	}
	for _, tt := range tests {
		c := Default()
		c.Provisioning.Interface = Simulated
		tt.change(&c)
		err := c.Validate()
		if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
			t.Errorf("%+v: got %v, want %q", c.Provisioning, err, tt.fault)
		}
	}
}

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Second: "1m30s", 30 * time.Second: "30s", 0: "0s"} {
		if got := Duration(d).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
