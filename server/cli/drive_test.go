package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

// withFlags runs fn in a command that has been given args.
func withFlags(t *testing.T, flags []cli.Flag, args []string, fn func(*cli.Context) error) error {
	t.Helper()
	app := &cli.App{Writer: io.Discard, ErrWriter: io.Discard, Flags: flags, Action: fn, ExitErrHandler: func(*cli.Context, error) {}}
	return app.RunContext(context.Background(), append([]string{"bessemer"}, args...))
}

func TestConfigDrive(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	parts := file("drive.json", `{"meta_data": {"hostname": "old", "role": "db"}, "network_data": {"links": []}}`)
	image := file("drive.b64", "H4sIAAAA\n")
	tests := []struct {
		name  string
		args  []string
		want  any
		fails bool
	}{
		{"nothing", nil, nil, false},
		{"a URL as it is", []string{"--config-drive", "https://example.org/drive"}, "https://example.org/drive", false},
		{"a ready image", []string{"--config-drive", image}, "H4sIAAAA", false},
		{"a host name", []string{"--hostname", "web1"}, map[string]any{"meta_data": map[string]any{"hostname": "web1", "name": "web1"}}, false},
		{
			"flags over a file",
			[]string{"--config-drive", parts, "--hostname", "new"},
			map[string]any{"meta_data": map[string]any{"hostname": "new", "name": "new", "role": "db"}, "network_data": map[string]any{"links": []any{}}},
			false,
		},
		{
			"keys and user data",
			[]string{"--ssh-key", file("a.pub", "ssh-ed25519 A a\n"), "--ssh-key", file("b.pub", "ssh-ed25519 B b\n"), "--user-data", file("init", "#cloud-config\n")},
			map[string]any{
				"meta_data": map[string]any{"public_keys": map[string]any{"key0": "ssh-ed25519 A a", "key1": "ssh-ed25519 B b"}},
				"user_data": "#cloud-config\n",
			},
			false,
		},
		{"a private key", []string{"--ssh-key", file("id", "-----BEGIN OPENSSH PRIVATE KEY-----\n")}, nil, true},
		{"neither JSON nor an image", []string{"--config-drive", file("odd", "hostname: web1\n")}, nil, true},
		{"no such file", []string{"--user-data", filepath.Join(dir, "nosuch")}, nil, true},
		{"flags beside a URL", []string{"--config-drive", "https://example.org/drive", "--hostname", "web1"}, nil, true},
		{"flags beside a ready image", []string{"--config-drive", image, "--hostname", "web1"}, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := withFlags(t, deployFlags(), tt.args, func(c *cli.Context) error {
				got, err := configDrive(c)
				if d := cmp.Diff(tt.want, got); err == nil && d != "" {
					t.Error(d)
				}
				return err
			})
			if (err != nil) != tt.fails {
				t.Errorf("got error %v, want one: %v", err, tt.fails)
			}
		})
	}
}

func TestExchangeCanBeUndone(t *testing.T) {
	old := map[string]any{"image_source": "old", "image_checksum": "123", "image_os_hash_value": "******", "keep": true}
	set := map[string]any{"image_source": "new", "root_device": map[string]any{"serial": "x"}}
	ops, back := exchange(old, set, []string{"image_os_hash_value", "image_checksum", "absent"})
	type op = map[string]any
	wantOps := []map[string]any{
		op{"op": "add", "path": "/instance_info/image_source", "value": "new"},
		op{"op": "add", "path": "/instance_info/root_device", "value": map[string]any{"serial": "x"}},
		op{"op": "remove", "path": "/instance_info/image_checksum"},
		op{"op": "remove", "path": "/instance_info/image_os_hash_value"},
	}
	wantBack := []map[string]any{
		op{"op": "add", "path": "/instance_info/image_source", "value": "old"},
		op{"op": "remove", "path": "/instance_info/root_device"},
		op{"op": "add", "path": "/instance_info/image_checksum", "value": "123"},
	}
	if d := cmp.Diff(wantOps, ops); d != "" {
		t.Errorf("there:\n%s", d)
	}
	if d := cmp.Diff(wantBack, back); d != "" {
		t.Errorf("back:\n%s", d)
	}
}

// With a new image goes the checksum of the old one, unless there is a new one.
func TestInstanceInfo(t *testing.T) {
	args := []string{"--image", "os", "--root-device", "serial=S1", "--root-device", "rotational=false"}
	err := withFlags(t, deployFlags(), args, func(c *cli.Context) error {
		set, drop, err := instanceInfo(c)
		want := map[string]any{"image_source": "os", "root_device": map[string]any{"serial": "S1", "rotational": false}}
		if d := cmp.Diff(want, set); d != "" {
			t.Error(d)
		}
		if len(drop) != 3 {
			t.Errorf("drops %v", drop)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
