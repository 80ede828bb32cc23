package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"bessemer/server/client"
)

// bags are the flags that fill a node's maps: --driver-info key=value.
var bags = []struct{ flag, field string }{
	{"driver-info", "driver_info"}, {"instance-info", "instance_info"}, {"property", "properties"}, {"extra", "extra"},
}

// scalars are the flags that set a node's plain fields.
var scalars = []struct{ flag, field, help string }{
	{"name", "name", "the node's `NAME`"},
	{"driver", "driver", "hardware `TYPE`: redfish, ipmi, fake-hardware"},
	{"resource-class", "resource_class", "resource `CLASS`, by which schedulers pick nodes"},
	{"description", "description", "any `TEXT`"},
	{"owner", "owner", "`WHO` owns it"},
	{"lessee", "lessee", "`WHO` uses it"},
	{"instance-uuid", "instance_uuid", "`UUID` of the instance on it"},
	{"conductor-group", "conductor_group", "`GROUP` of conductors that may manage it"},
}

func nodeFlags() []cli.Flag {
	var fs []cli.Flag
	for _, s := range scalars {
		fs = append(fs, &cli.StringFlag{Name: s.flag, Usage: s.help})
	}
	fs = append(fs, &cli.StringSliceFlag{Name: "interface", Usage: "`KIND=NAME` of an interface that shall not be the driver's default, such as deploy=direct"})
	for _, b := range bags {
		fs = append(fs, &cli.StringSliceFlag{Name: b.flag, Usage: "`KEY=VALUE` of " + b.field + "; VALUE may be JSON; KEY=@- reads it from standard input, KEY=@FILE from a file"})
	}
	return fs
}

func nodeCreate() *cli.Command {
	return &cli.Command{
		Name: "create", Usage: "enroll a machine", ArgsUsage: "[NAME]",
		UsageText: `bessemer node create n1 --driver redfish --mac 52:54:00:00:00:01 \
  --driver-info redfish_address=https://192.0.2.10 --driver-info redfish_username=root --driver-info redfish_password=@-
bessemer node create n2 --driver ipmi --mac 52:54:00:00:00:02 \
  --driver-info ipmi_address=192.0.2.11 --driver-info ipmi_username=admin --driver-info ipmi_password=@bmc.pw`,
		Flags: append(nodeFlags(), &cli.StringSliceFlag{Name: "mac", Usage: "`MAC` address of a card it boots from; makes a port"}),
		Action: func(c *cli.Context) error {
			body, err := nodeBody(c)
			if err != nil {
				return err
			}
			if c.NArg() > 1 {
				return usagef("usage: %s [NAME] --driver DRIVER", c.Command.HelpName)
			}
			if c.NArg() == 1 {
				body["name"] = c.Args().First()
			}
			if body["driver"] == nil {
				return usagef("--driver is needed: redfish, ipmi or fake-hardware")
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			var n map[string]any
			if err := cl.Call(c.Context, http.MethodPost, "/v1/nodes", body, &n); err != nil {
				return err
			}
			return addPorts(c, cl, n)
		},
	}
}

// addPorts makes the ports of a new node; if one is refused the node goes
// again, so that a mistyped MAC leaves nothing behind.
func addPorts(c *cli.Context, cl *client.Client, n map[string]any) error {
	for _, mac := range c.StringSlice("mac") {
		err := cl.Call(c.Context, http.MethodPost, "/v1/ports", map[string]any{"node_uuid": n["uuid"], "address": mac}, nil)
		if err != nil {
			undo := cl.Call(c.Context, http.MethodDelete, nodePath(fmt.Sprint(n["uuid"])), nil, nil)
			if undo != nil {
				return fmt.Errorf("add port %s: %w; the node is left without it: %w", mac, err, undo)
			}
			return fmt.Errorf("add port %s: %w; the node was not created", mac, err)
		}
	}
	return created(c, n)
}

// created shows what matters of a new node; all of it as JSON or YAML.
func created(c *cli.Context, n map[string]any) error {
	if done, err := printData(c, n); done {
		return err
	}
	short := map[string]any{}
	for _, k := range []string{"uuid", "name", "driver", "provision_state", "resource_class"} {
		short[k] = n[k]
	}
	if macs := c.StringSlice("mac"); len(macs) > 0 {
		short["ports"] = strings.Join(macs, ", ")
	}
	if err := printTable(c.App.Writer, short, nodeFirst, false); err != nil {
		return err
	}
	ident := n["name"]
	if empty(ident) {
		ident = n["uuid"]
	}
	say(c, "next: bessemer node manage %v --wait", ident)
	return nil
}

func nodeBody(c *cli.Context) (map[string]any, error) {
	body := map[string]any{}
	for _, s := range scalars {
		if c.IsSet(s.flag) {
			body[s.field] = c.String(s.flag)
		}
	}
	for _, p := range c.StringSlice("interface") {
		kind, name, ok := strings.Cut(p, "=")
		if !ok || kind == "" {
			return nil, usagef("--interface %s: it is KIND=NAME", p)
		}
		body[kind+"_interface"] = name
	}
	for _, b := range bags {
		pairs := c.StringSlice(b.flag)
		if len(pairs) == 0 {
			continue
		}
		m, err := keyValues(b.flag, pairs)
		if err != nil {
			return nil, err
		}
		body[b.field] = m
	}
	return body, nil
}

// keyValues parses KEY=VALUE. A value that is a JSON object, list, true or
// false is taken as such; numbers stay text, for a password may be one.
func keyValues(flag string, pairs []string) (map[string]any, error) {
	m := map[string]any{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, usagef("--%s %s: it is KEY=VALUE", flag, p)
		}
		value, err := argument(v)
		if err != nil {
			return nil, fmt.Errorf("--%s %s: %w", flag, k, err)
		}
		m[k] = value
	}
	return m, nil
}

func argument(v string) (any, error) {
	if name, ok := strings.CutPrefix(v, "@"); ok {
		raw, err := readAll(name)
		return strings.TrimRight(string(raw), "\r\n"), err
	}
	if v == "true" || v == "false" || strings.HasPrefix(v, "{") || strings.HasPrefix(v, "[") {
		var x any
		if err := json.Unmarshal([]byte(v), &x); err != nil {
			return nil, usagef("%q is not JSON: %v", v, err)
		}
		return x, nil
	}
	return v, nil
}

func readAll(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

func nodeSet() *cli.Command {
	return &cli.Command{
		Name: "set", Usage: "change a node", ArgsUsage: "NODE",
		UsageText: "bessemer node set n1 --instance-info image_source=debian --property capabilities=boot_mode:uefi",
		Flags:     nodeFlags(),
		Action: func(c *cli.Context) error {
			node, err := one(c, "NODE")
			if err != nil {
				return err
			}
			body, err := nodeBody(c)
			if err != nil {
				return err
			}
			var ops []map[string]any
			for _, field := range slices.Sorted(maps.Keys(body)) {
				m, isMap := body[field].(map[string]any)
				if !isMap {
					ops = append(ops, map[string]any{"op": "add", "path": "/" + field, "value": body[field]})
				}
				for _, k := range slices.Sorted(maps.Keys(m)) {
					ops = append(ops, map[string]any{"op": "add", "path": "/" + field + "/" + pointer(k), "value": m[k]})
				}
			}
			return patchNode(c, node, ops)
		},
	}
}

func nodeUnset() *cli.Command {
	fs := []cli.Flag{&cli.StringSliceFlag{Name: "field", Usage: "plain `FIELD` to clear: name, description, instance_uuid, ..."}}
	for _, b := range bags {
		fs = append(fs, &cli.StringSliceFlag{Name: b.flag, Usage: "`KEY` of " + b.field + " to remove"})
	}
	return &cli.Command{
		Name: "unset", Usage: "remove what set has set", ArgsUsage: "NODE",
		UsageText: "bessemer node unset n1 --instance-info image_source --field description",
		Flags:     fs,
		Action: func(c *cli.Context) error {
			node, err := one(c, "NODE")
			if err != nil {
				return err
			}
			var ops []map[string]any
			for _, f := range c.StringSlice("field") {
				ops = append(ops, map[string]any{"op": "remove", "path": "/" + strings.ReplaceAll(f, "-", "_")})
			}
			for _, b := range bags {
				for _, k := range c.StringSlice(b.flag) {
					ops = append(ops, map[string]any{"op": "remove", "path": "/" + b.field + "/" + pointer(k)})
				}
			}
			return patchNode(c, node, ops)
		},
	}
}

func patchNode(c *cli.Context, node string, ops []map[string]any) error {
	if len(ops) == 0 {
		return usagef("nothing to change; see %s --help", c.Command.HelpName)
	}
	cl, err := connect(c)
	if err != nil {
		return err
	}
	if err := cl.Call(c.Context, http.MethodPatch, nodePath(node), ops, nil); err != nil {
		return err
	}
	say(c, "changed %s", node)
	return nil
}

// pointer escapes a key for a JSON pointer (RFC 6901, section 3).
func pointer(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
