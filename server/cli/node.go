package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
)

func nodeCommand() *cli.Command {
	return &cli.Command{
		Name: "node", Usage: "machines under management",
		Subcommands: append([]*cli.Command{
			nodeList(), nodeShow(), nodeCreate(), nodeSet(), nodeUnset(), nodeDelete(),
			nodePower(), nodeBoot(), nodeMaintenance(), nodeValidate(), nodeExplain(), nodeTrace(), nodeRuns(),
		}, nodeVerbs()...),
	}
}

func nodeList() *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list nodes", ArgsUsage: " ",
		UsageText: "bessemer node list\nbessemer node list --state available --driver redfish\nbessemer -o json node list",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "state", Usage: "only nodes in this provision `STATE`"},
			&cli.StringFlag{Name: "driver", Usage: "only nodes with this `DRIVER`"},
			&cli.BoolFlag{Name: "maintenance", Usage: "only nodes in maintenance"},
		},
		Action: func(c *cli.Context) error {
			q := url.Values{"detail": {"true"}, "limit": {"1000"}}
			for flag, key := range map[string]string{"state": "provision_state", "driver": "driver"} {
				if v := c.String(flag); v != "" {
					q.Set(key, v)
				}
			}
			if c.Bool("maintenance") {
				q.Set("maintenance", "true")
			}
			rows, err := listAll(c, "/v1/nodes?"+q.Encode(), "nodes")
			if err != nil {
				return err
			}
			if err := printList(c, rows, columns("uuid", "name", "driver", "power_state=power", "provision_state=state", "maintenance", "last_error")); err != nil {
				return err
			}
			if c.String("output") == "table" && slices.ContainsFunc(rows, func(n map[string]any) bool { return len(cell(n["last_error"])) > clipped }) {
				say(c, "an error that ends with … is whole in: bessemer node show NODE")
			}
			return nil
		},
	}
}

// listAll follows a list's pages.
func listAll(c *cli.Context, path, key string) ([]map[string]any, error) {
	cl, err := connect(c)
	if err != nil {
		return nil, err
	}
	rows := []map[string]any{}
	for path != "" {
		var page map[string]any
		if err := cl.Get(c.Context, path, &page); err != nil {
			return nil, err
		}
		items, _ := page[key].([]any)
		for _, it := range items {
			if m, ok := it.(map[string]any); ok {
				rows = append(rows, m)
			}
		}
		next, _ := page["next"].(string)
		path = ""
		if u, err := url.Parse(next); err == nil && next != "" {
			path = u.RequestURI()
		}
	}
	return rows, nil
}

// nodeFirst are the fields of a node that one looks for, in that order.
var nodeFirst = []string{
	"uuid", "name", "driver", "provision_state", "target_provision_state", "power_state", "target_power_state", "maintenance",
	"maintenance_reason", "last_error", "instance_uuid", "resource_class", "driver_info", "instance_info", "properties", "extra",
}

// nodeLinks are fields that only lead to other resources.
var nodeLinks = []string{"links", "ports", "portgroups", "states", "volume"}

func nodeShow() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show a node", ArgsUsage: "NODE",
		UsageText: "bessemer node show n1\nbessemer node show n1 --all\nbessemer node show n1 -o json",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "empty fields too"}},
		Action: func(c *cli.Context) error {
			node, err := one(c, "NODE")
			if err != nil {
				return err
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			var n map[string]any
			if err := cl.Get(c.Context, nodePath(node), &n); err != nil {
				return err
			}
			return printOne(c, n, nodeFirst, nodeLinks)
		},
	}
}

func nodeDelete() *cli.Command {
	return &cli.Command{
		Name: "delete", Usage: "forget nodes", ArgsUsage: "NODE...", UsageText: "bessemer node delete n1 n2",
		Flags: []cli.Flag{yesFlag()},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return usagef("name the nodes to delete: %s NODE...", c.Command.HelpName)
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			if err := confirm(c, "forget "+strings.Join(c.Args().Slice(), ", ")+"?"); err != nil {
				return err
			}
			for _, node := range c.Args().Slice() {
				if err := cl.Call(c.Context, http.MethodDelete, nodePath(node), nil, nil); err != nil {
					return fmt.Errorf("delete node %s: %w", node, err)
				}
				say(c, "deleted %s", node)
			}
			return nil
		},
	}
}

func nodeMaintenance() *cli.Command {
	return &cli.Command{
		Name: "maintenance", Usage: "put a node in or out of maintenance", ArgsUsage: "on|off NODE",
		UsageText: "bessemer node maintenance on n1 --reason 'fan broken'\nbessemer node maintenance off n1",
		Flags:     []cli.Flag{&cli.StringFlag{Name: "reason", Usage: "why"}},
		Action: func(c *cli.Context) error {
			args, err := exactly(c, "on|off", "NODE")
			if err != nil {
				return err
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			path := nodePath(args[1]) + "/maintenance"
			switch args[0] {
			case "on", "set":
				err = cl.Call(c.Context, http.MethodPut, path, map[string]any{"reason": c.String("reason")}, nil)
			case "off", "unset":
				err = cl.Call(c.Context, http.MethodDelete, path, nil, nil)
			default:
				return usagef("%q: it is on or off", args[0])
			}
			if err == nil {
				say(c, "maintenance of %s: %s", args[1], args[0])
			}
			return err
		},
	}
}

func nodeValidate() *cli.Command {
	return &cli.Command{
		Name: "validate", Usage: "check whether a node could be managed and deployed", ArgsUsage: "NODE",
		Action: func(c *cli.Context) error {
			node, err := one(c, "NODE")
			if err != nil {
				return err
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			var v map[string]map[string]any
			if err := cl.Get(c.Context, nodePath(node)+"/validate", &v); err != nil {
				return err
			}
			rows := []map[string]any{}
			for _, name := range sortedKeys(v) {
				rows = append(rows, map[string]any{"interface": name, "result": v[name]["result"], "reason": v[name]["reason"]})
			}
			if done, err := printData(c, rows); done {
				return err
			}
			return validation(c, rows)
		},
	}
}

// validation shows each interface with what it lacks, in full.
func validation(c *cli.Context, rows []map[string]any) error {
	w := tabwriter.NewWriter(c.App.Writer, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		sign := "-"
		if ok, is := r["result"].(bool); is {
			sign = map[bool]string{true: "✓", false: "✗"}[ok]
		}
		reason := ""
		if !empty(r["reason"]) {
			reason = "\t" + cell(r["reason"])
		}
		fmt.Fprintf(w, "%s %s%s\n", sign, r["interface"], reason)
	}
	return w.Flush()
}

func nodePath(node string) string { return "/v1/nodes/" + url.PathEscape(node) }

// one returns the command's only argument.
func one(c *cli.Context, what string) (string, error) {
	args, err := exactly(c, what)
	if err != nil {
		return "", err
	}
	return args[0], nil
}

func exactly(c *cli.Context, what ...string) ([]string, error) {
	if c.NArg() != len(what) {
		return nil, usagef("usage: %s %s", c.Command.HelpName, strings.Join(what, " "))
	}
	return c.Args().Slice(), nil
}
