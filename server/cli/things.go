package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/urfave/cli/v2"
)

func driverCommand() *cli.Command {
	return &cli.Command{
		Name: "driver", Usage: "hardware types",
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list hardware types", ArgsUsage: " ", Action: listAction("/v1/drivers", "drivers", columns("name", "hosts"))},
			{
				Name: "show", Usage: "list the driver_info keys of a hardware type", ArgsUsage: "DRIVER",
				Action: func(c *cli.Context) error {
					name, err := one(c, "DRIVER")
					if err != nil {
						return err
					}
					cl, err := connect(c)
					if err != nil {
						return err
					}
					var props map[string]any
					if err := cl.Get(c.Context, "/v1/drivers/"+url.PathEscape(name)+"/properties", &props); err != nil {
						return err
					}
					return printOne(c, props, nil, nil)
				},
			},
		},
	}
}

func discoveredCommand() *cli.Command {
	return &cli.Command{
		Name: "discovered", Usage: "machines that ask to boot but belong to no node",
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list them", ArgsUsage: " ", Action: listAction("/api/v1/discovered", "discovered", columns("mac", "uuid", "arch", "ip", "last_seen", "count=seen", "last_what=last"))},
			deleteCommand("forget machines", "MAC...", "/api/v1/discovered/"),
		},
	}
}

func statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "what the appliance is and does", ArgsUsage: " ",
		Action: func(c *cli.Context) error {
			cl, err := connect(c)
			if err != nil {
				return err
			}
			var s map[string]any
			if err := cl.Get(c.Context, "/api/v1/status", &s); err != nil {
				return err
			}
			if done, err := printData(c, s); done {
				return err
			}
			return printTable(c.App.Writer, statusLines(s), statusFirst, false)
		},
	}
}

var statusFirst = []string{"version", "hostname", "started", "uptime", "listeners", "not_ready", "nodes", "nodes_by_state", "nodes_in_maintenance", "runs_open", "ports", "images"}

// statusLines are the parts of a status that people want to know of.
func statusLines(s map[string]any) map[string]any {
	out := map[string]any{"auth": s["auth"], "user": s["user"], "role": s["role"], "drivers": s["drivers"]}
	for _, k := range []string{"version", "hostname", "started", "not_ready"} {
		out[k] = s[k]
	}
	if sec, ok := s["uptime"].(float64); ok {
		out["uptime"] = took(time.Duration(sec * float64(time.Second)))
	}
	listeners := map[string]any{}
	list, _ := s["listeners"].([]any)
	for _, l := range list {
		if m, ok := l.(map[string]any); ok {
			listeners[cell(m["name"])] = m["address"]
		}
	}
	out["listeners"] = listeners
	counts, _ := s["counts"].(map[string]any)
	for _, k := range []string{"nodes", "nodes_by_state", "nodes_in_maintenance", "ports", "runs_open", "images", "messages", "messages_lost"} {
		out[k] = counts[k]
	}
	if mem, ok := s["memory"].(map[string]any); ok {
		out["memory"] = map[string]any{"system": mem["system"]}
	}
	return out
}

func listAction(path, key string, cols []column) cli.ActionFunc {
	return func(c *cli.Context) error {
		rows, err := listAll(c, path, key)
		if err != nil {
			return err
		}
		return printList(c, rows, cols)
	}
}

func deleteCommand(usage, args, path string) *cli.Command {
	return &cli.Command{
		Name: "delete", Usage: usage, ArgsUsage: args,
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return usagef("usage: %s %s", c.Command.HelpName, args)
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			for _, id := range c.Args().Slice() {
				if err := cl.Call(c.Context, http.MethodDelete, path+url.PathEscape(id), nil, nil); err != nil {
					return fmt.Errorf("delete %s: %w", id, err)
				}
				say(c, "deleted %s", id)
			}
			return nil
		},
	}
}
