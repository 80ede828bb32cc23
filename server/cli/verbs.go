package cli

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"bessemer/server/client"
)

// A verb is a change of provision state that a client may ask for.
type verb struct {
	name, target, usage, example string
	flags                        []cli.Flag
	// prepare does what comes before, and returns what goes with the request
	// and how to undo it when that is refused (nil: nothing to undo).
	prepare func(c *cli.Context, cl *client.Client, node string) (body map[string]any, undo func() error, err error)
	goal    []string // provision states that mean success; empty: any at rest
	ruins   string   // what is lost by it, for a question to people
}

func nodeVerbs() []*cli.Command {
	verbs := []verb{
		{name: "manage", target: "manage", usage: "check the controller and make a node manageable", goal: []string{"manageable"}, example: "bessemer node manage n1 --wait"},
		{name: "provide", target: "provide", usage: "clean a manageable node and make it available", goal: []string{"available"}, example: "bessemer node provide n1 --wait"},
		{
			name: "deploy", target: "active", usage: "write an image to a node and boot it", goal: []string{"active"},
			example: "bessemer node deploy n1 --image debian --hostname web1 --ssh-key ~/.ssh/id_ed25519.pub --wait\n" +
				"bessemer node deploy n1 --image http://192.0.2.1/os.qcow2 --checksum http://192.0.2.1/SHA256SUMS --config-drive drive.json\n" +
				"bessemer node deploy n1 --image debian --root-device serial=S3Z8NB0K",
			flags: deployFlags(), prepare: prepareDeploy,
		},
		{
			name: "rebuild", target: "rebuild", usage: "write the image of an active node anew", goal: []string{"active"},
			example: "bessemer node rebuild n1 --wait\nbessemer node rebuild n1 --image debian13",
			flags:   deployFlags(), prepare: prepareDeploy, ruins: "what is on its disk is overwritten",
		},
		{
			name: "undeploy", target: "deleted", usage: "take an instance off a node and clean it", goal: []string{"available", "manageable"},
			example: "bessemer node undeploy n1 --wait", ruins: "its instance is lost and its disks are wiped",
		},
		{
			name: "clean", target: "clean", usage: "run clean steps on a manageable node", goal: []string{"manageable"},
			example: `bessemer node clean n1 --step deploy.erase_devices_metadata --wait`,
			flags:   []cli.Flag{&cli.StringSliceFlag{Name: "step", Value: cli.NewStringSlice("deploy.erase_devices_metadata"), Usage: "`INTERFACE.STEP` to run, in order"}},
			prepare: prepareClean, ruins: "the steps may erase its disks",
		},
		{name: "abort", target: "abort", usage: "end what a node waits for", example: "bessemer node abort n1 --wait"},
	}
	var cs []*cli.Command
	for _, v := range verbs {
		cs = append(cs, v.command())
	}
	return cs
}

func (v verb) command() *cli.Command {
	flags := append(v.flags, waitFlags(time.Hour, "wait for the end, showing what happens")...)
	if v.ruins != "" {
		flags = append(flags, yesFlag())
	}
	return &cli.Command{
		Name: v.name, Usage: v.usage, ArgsUsage: "NODE", UsageText: v.example, Flags: flags,
		Action: func(c *cli.Context) error {
			node, err := one(c, "NODE")
			if err != nil {
				return err
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			var w watch
			if c.Bool("wait") {
				w = newWatch(c, cl, node)
			}
			if err := v.request(c, cl, node); err != nil {
				return err
			}
			if c.Bool("wait") {
				return w.wait(c, v.name, v.goal)
			}
			say(c, "%s of %s has begun; watch it with: bessemer node trace %s --follow", v.name, node, node)
			return nil
		},
	}
}

// request asks for the change of state. When it is refused the node is as it
// was before.
func (v verb) request(c *cli.Context, cl *client.Client, node string) error {
	if v.ruins != "" {
		if err := confirm(c, v.name+" "+node+": "+v.ruins+". Go on?"); err != nil {
			return err
		}
	}
	body := map[string]any{}
	var undo func() error
	if v.prepare != nil {
		var err error
		if body, undo, err = v.prepare(c, cl, node); err != nil {
			return err
		}
	}
	body["target"] = v.target
	err := cl.Call(c.Context, http.MethodPut, nodePath(node)+"/states/provision", body, nil)
	if _, refused := errors.AsType[*client.Error](err); refused && undo != nil {
		if uerr := undo(); uerr != nil {
			say(c, "the node's instance_info could not be set back to what it was: %v", uerr)
		}
	}
	return err
}

func prepareClean(c *cli.Context, _ *client.Client, _ string) (map[string]any, func() error, error) {
	var steps []map[string]any
	for _, s := range c.StringSlice("step") {
		iface, step, ok := strings.Cut(s, ".")
		if !ok {
			return nil, nil, usagef("--step %s: it is INTERFACE.STEP", s)
		}
		steps = append(steps, map[string]any{"interface": iface, "step": step})
	}
	return map[string]any{"clean_steps": steps}, nil, nil
}
