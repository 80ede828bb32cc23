package cli

import (
	"net/http"
	"net/url"

	"github.com/urfave/cli/v2"
)

func portCommand() *cli.Command {
	return &cli.Command{
		Name: "port", Usage: "network cards of nodes",
		Subcommands: []*cli.Command{
			{
				Name: "list", Usage: "list ports", ArgsUsage: " ",
				Flags: []cli.Flag{&cli.StringFlag{Name: "node", Usage: "only this `NODE`'s"}},
				Action: func(c *cli.Context) error {
					q := url.Values{"detail": {"true"}, "limit": {"1000"}}
					if n := c.String("node"); n != "" {
						q.Set("node", n)
					}
					rows, err := listAll(c, "/v1/ports?"+q.Encode(), "ports")
					if err != nil {
						return err
					}
					return printList(c, rows, columns("uuid", "address", "node_uuid=node", "pxe_enabled=boots", "physical_network"))
				},
			},
			{
				Name: "create", Usage: "add a network card to a node", ArgsUsage: "NODE MAC", UsageText: "bessemer port create n1 52:54:00:00:00:02",
				Flags: []cli.Flag{&cli.BoolFlag{Name: "no-boot", Usage: "the machine does not boot from it"}},
				Action: func(c *cli.Context) error {
					args, err := exactly(c, "NODE", "MAC")
					if err != nil {
						return err
					}
					cl, err := connect(c)
					if err != nil {
						return err
					}
					var n, p map[string]any
					if err := cl.Get(c.Context, nodePath(args[0]), &n); err != nil {
						return err
					}
					body := map[string]any{"node_uuid": n["uuid"], "address": args[1], "pxe_enabled": !c.Bool("no-boot")}
					if err := cl.Call(c.Context, http.MethodPost, "/v1/ports", body, &p); err != nil {
						return err
					}
					return printOne(c, p, []string{"uuid", "address", "node_uuid"}, []string{"links"})
				},
			},
			deleteCommand("forget network cards", "PORT...", "/v1/ports/"),
		},
	}
}
