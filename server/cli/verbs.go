package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// A verb is a change of provision state that a client may ask for.
type verb struct {
	name, target, usage, example string
	flags                        []cli.Flag
	// prepare does what comes before, and returns what goes with the request.
	prepare func(c *cli.Context, node string) (map[string]any, error)
	goal    []string // provision states that mean success
}

func nodeVerbs() []*cli.Command {
	verbs := []verb{
		{name: "manage", target: "manage", usage: "check the controller and make a node manageable", goal: []string{"manageable"}},
		{name: "provide", target: "provide", usage: "clean a manageable node and make it available", goal: []string{"available"}},
		{
			name: "deploy", target: "active", usage: "write an image to a node and boot it", goal: []string{"active"},
			example: "bessemer node deploy n1 --image debian --hostname web1 --ssh-key ~/.ssh/id_ed25519.pub --wait\n" +
				"bessemer node deploy n1 --image http://192.0.2.1/os.qcow2 --checksum sha256sum --config-drive drive.json",
			flags: deployFlags(), prepare: prepareDeploy,
		},
		{
			name: "rebuild", target: "rebuild", usage: "write the image of an active node anew", goal: []string{"active"},
			flags: deployFlags(), prepare: prepareDeploy,
		},
		{name: "undeploy", target: "deleted", usage: "take an instance off a node and clean it", goal: []string{"available", "manageable"}},
		{
			name: "clean", target: "clean", usage: "run clean steps on a manageable node", goal: []string{"manageable"},
			example: `bessemer node clean n1 --step deploy.erase_devices_metadata --wait`,
			flags:   []cli.Flag{&cli.StringSliceFlag{Name: "step", Value: cli.NewStringSlice("deploy.erase_devices_metadata"), Usage: "`INTERFACE.STEP` to run, in order"}},
			prepare: prepareClean,
		},
		{name: "abort", target: "abort", usage: "end what a node waits for", goal: nil},
	}
	var cs []*cli.Command
	for _, v := range verbs {
		cs = append(cs, v.command())
	}
	return cs
}

func (v verb) command() *cli.Command {
	return &cli.Command{
		Name: v.name, Usage: v.usage, ArgsUsage: "NODE", UsageText: v.example,
		Flags: append(v.flags,
			&cli.BoolFlag{Name: "wait", Usage: "wait for the end, showing what happens"},
			&cli.DurationFlag{Name: "timeout", Value: time.Hour, Usage: "how long --wait waits"},
		),
		Action: func(c *cli.Context) error {
			node, err := one(c, "NODE")
			if err != nil {
				return err
			}
			body := map[string]any{}
			if v.prepare != nil {
				if body, err = v.prepare(c, node); err != nil {
					return err
				}
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			body["target"] = v.target
			if err := cl.Call(c.Context, http.MethodPut, nodePath(node)+"/states/provision", body, nil); err != nil {
				return err
			}
			if c.Bool("wait") {
				return wait(c, cl, node, v.goal)
			}
			fmt.Fprintf(c.App.ErrWriter, "%s of %s has begun; watch it with: bessemer node trace %s --follow\n", v.name, node, node)
			return nil
		},
	}
}

func deployFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "image", Usage: "name or UUID of a kept image, or a `URL`; default: what instance_info says"},
		&cli.StringFlag{Name: "checksum", Usage: "sha256 or sha512 of the image file, or the `URL` of a checksum file; needed with a URL"},
		&cli.StringFlag{Name: "config-drive", Usage: "`FILE` with JSON (meta_data, user_data, network_data, vendor_data), or an image as base64 of gzip, or a URL"},
		&cli.StringFlag{Name: "hostname", Usage: "the instance's host name, for the config drive"},
		&cli.StringSliceFlag{Name: "ssh-key", Usage: "public key `FILE` for the config drive"},
		&cli.StringFlag{Name: "user-data", Usage: "user data `FILE` for the config drive"},
	}
}

// prepareDeploy sets the node's image and returns the config drive.
func prepareDeploy(c *cli.Context, node string) (map[string]any, error) {
	drive, err := configDrive(c)
	if err != nil {
		return nil, err
	}
	var ops []map[string]any
	if v := c.String("image"); v != "" {
		ops = append(ops, map[string]any{"op": "add", "path": "/instance_info/image_source", "value": v})
	}
	if v := c.String("checksum"); v != "" {
		ops = append(ops, map[string]any{"op": "add", "path": "/instance_info/image_checksum", "value": v})
	}
	if len(ops) > 0 {
		if err := patchNode(c, node, ops); err != nil {
			return nil, err
		}
	}
	body := map[string]any{}
	if drive != nil {
		body["configdrive"] = drive
	}
	return body, nil
}

// configDrive puts together what the flags say of the config drive: nil for
// nothing, text for a URL or a ready image, else its parts.
func configDrive(c *cli.Context) (any, error) {
	meta, parts := map[string]any{}, map[string]any{}
	if src := c.String("config-drive"); src != "" {
		if strings.HasPrefix(src, "http://") || strings.HasPrefix(src, "https://") {
			return src, nil
		}
		raw, err := readAll(src)
		if err != nil {
			return nil, fmt.Errorf("--config-drive: %w", err)
		}
		if json.Unmarshal(raw, &parts) != nil {
			text := strings.TrimSpace(string(raw))
			if _, err := base64.StdEncoding.DecodeString(text); err != nil {
				return nil, usagef("--config-drive %s: neither JSON nor base64", src)
			}
			return text, nil
		}
		if m, ok := parts["meta_data"].(map[string]any); ok {
			meta = m
		}
	}
	if h := c.String("hostname"); h != "" {
		meta["hostname"], meta["name"] = h, h
	}
	keys, err := sshKeys(c.StringSlice("ssh-key"))
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 {
		meta["public_keys"] = keys
	}
	if f := c.String("user-data"); f != "" {
		raw, err := readAll(f)
		if err != nil {
			return nil, fmt.Errorf("--user-data: %w", err)
		}
		parts["user_data"] = string(raw)
	}
	if len(meta) > 0 {
		parts["meta_data"] = maps.Clone(meta)
	}
	if len(parts) == 0 {
		return nil, nil
	}
	return parts, nil
}

func sshKeys(files []string) (map[string]any, error) {
	keys := map[string]any{}
	for i, f := range files {
		raw, err := readAll(f)
		if err != nil {
			return nil, fmt.Errorf("--ssh-key: %w", err)
		}
		if strings.Contains(string(raw), "PRIVATE KEY") {
			return nil, usagef("--ssh-key %s is a private key; give the .pub file", f)
		}
		keys[fmt.Sprintf("key%d", i)] = strings.TrimSpace(string(raw))
	}
	return keys, nil
}

func prepareClean(c *cli.Context, _ string) (map[string]any, error) {
	var steps []map[string]any
	for _, s := range c.StringSlice("step") {
		iface, step, ok := strings.Cut(s, ".")
		if !ok {
			return nil, usagef("--step %s: it is INTERFACE.STEP", s)
		}
		steps = append(steps, map[string]any{"interface": iface, "step": step})
	}
	return map[string]any{"clean_steps": steps}, nil
}
