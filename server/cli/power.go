package cli

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// powers maps what people say to the targets of Ironic's API.
var powers = map[string]string{
	"on": "power on", "off": "power off", "reboot": "rebooting", "soft-off": "soft power off", "soft-reboot": "soft rebooting",
}

func nodePower() *cli.Command {
	return &cli.Command{
		Name: "power", Usage: "switch a node on or off, or reboot it", ArgsUsage: "on|off|reboot|soft-off|soft-reboot NODE",
		UsageText: "bessemer node power on n1 --wait",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "wait", Usage: "wait until it is so"},
			&cli.DurationFlag{Name: "timeout", Value: 10 * time.Minute, Usage: "how long --wait waits"},
		},
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
				return nil
			}
			return waitPower(c, args[1])
		},
	}
}

func waitPower(c *cli.Context, node string) error {
	cl, err := connect(c)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(c.Duration("timeout"))
	n, err := cl.WaitState(c.Context, node, func(n map[string]any) bool {
		return n["target_power_state"] == nil || time.Now().After(deadline)
	}, nil)
	switch {
	case err != nil:
		return err
	case n["target_power_state"] != nil:
		return fmt.Errorf("%w: %s is still %v", errTimeout, node, n["power_state"])
	case n["last_error"] != nil:
		return fmt.Errorf("%s is %v: %v", node, n["power_state"], n["last_error"])
	}
	fmt.Fprintf(c.App.ErrWriter, "%s is %v\n", node, n["power_state"])
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
				return cl.Call(c.Context, http.MethodPut, path, map[string]any{"boot_device": c.Args().Get(1), "persistent": c.Bool("persistent")}, nil)
			}
			var now, can map[string]any
			if err := cl.Get(c.Context, path, &now); err != nil {
				return err
			}
			if err := cl.Get(c.Context, path+"/supported", &can); err != nil {
				return err
			}
			now["supported"] = can["supported_boot_devices"]
			return printOne(c, now)
		},
	}
}
