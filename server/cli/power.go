package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"bessemer/server/client"
)

// powers maps what people say to the targets of Ironic's API.
var powers = map[string]string{
	"on": "power on", "off": "power off", "reboot": "rebooting", "soft-off": "soft power off", "soft-reboot": "soft rebooting",
}

func nodePower() *cli.Command {
	return &cli.Command{
		Name: "power", Usage: "switch a node on or off, or reboot it", ArgsUsage: "on|off|reboot|soft-off|soft-reboot NODE",
		UsageText: "bessemer node power on n1 --wait\nbessemer node power soft-reboot n1",
		Flags:     waitFlags(10*time.Minute, "wait until it is so"),
		Action: func(c *cli.Context) error {
			args, err := exactly(c, "on|off|reboot|soft-off|soft-reboot", "NODE")
			if err != nil {
				return err
			}
			target, ok := powers[args[0]]
			if !ok {
				return usagef("%q: it is one of %s", args[0], strings.Join(sortedKeys(powers), ", "))
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			if err := cl.Call(c.Context, http.MethodPut, nodePath(args[1])+"/states/power", map[string]any{"target": target}, nil); err != nil {
				return err
			}
			if !c.Bool("wait") {
				say(c, "%s of %s has begun", args[0], args[1])
				return nil
			}
			return waitPower(c, cl, args[1], target)
		},
	}
}

// waitPower waits until a power change is over. That it went well shows in the
// power state: an error may be left from something else.
func waitPower(c *cli.Context, cl *client.Client, node, target string) error {
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()
	n, err := cl.WaitState(ctx, node, func(n map[string]any) bool { return n["target_power_state"] == nil }, nil)
	if err != nil {
		return unfinished(c, ctx, err, target+" of "+node+" goes on; see: bessemer node show "+node)
	}
	want := "power on"
	if strings.HasSuffix(target, "off") {
		want = "power off"
	}
	if n["power_state"] != want {
		return fmt.Errorf("%s is %s, not %s: %s", node, cell(n["power_state"]), want, cell(n["last_error"]))
	}
	say(c, "%s is %s", node, want)
	return nil
}

func nodeBoot() *cli.Command {
	return &cli.Command{
		Name: "boot", Usage: "show or set where a node boots from", ArgsUsage: "NODE [DEVICE]",
		UsageText: "bessemer node boot n1\nbessemer node boot n1 pxe\nbessemer node boot n1 disk --persistent",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "persistent", Usage: "for every boot, not only the next"}},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 && c.NArg() != 2 {
				return usagef("usage: %s NODE [DEVICE]", c.Command.HelpName)
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			path := nodePath(c.Args().First()) + "/management/boot_device"
			if c.NArg() == 2 {
				return setBoot(c, cl, path)
			}
			var now, can map[string]any
			if err := cl.Get(c.Context, path, &now); err != nil {
				return err
			}
			if err := cl.Get(c.Context, path+"/supported", &can); err != nil {
				return err
			}
			now["supported"] = can["supported_boot_devices"]
			if done, err := printData(c, now); done {
				return err
			}
			return printTable(c.App.Writer, now, []string{"boot_device", "persistent"}, true)
		},
	}
}

func setBoot(c *cli.Context, cl *client.Client, path string) error {
	device, often := c.Args().Get(1), "once"
	if c.Bool("persistent") {
		often = "always"
	}
	body := map[string]any{"boot_device": device, "persistent": c.Bool("persistent")}
	if err := cl.Call(c.Context, http.MethodPut, path, body, nil); err != nil {
		return err
	}
	say(c, "%s boots from %s %s", c.Args().First(), device, often)
	return nil
}
