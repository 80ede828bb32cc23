package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"
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
				Name: "create", Usage: "add a network card to a node", ArgsUsage: "NODE MAC",
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
					return printOne(c, p, "links")
				},
			},
			deleteCommand("forget network cards", "PORT...", "/v1/ports/"),
		},
	}
}

func imageCommand() *cli.Command {
	return &cli.Command{
		Name: "image", Usage: "disk images that the appliance keeps",
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list images", ArgsUsage: " ", Action: listAction("/api/v1/images", "images", columns("uuid", "name", "size", "format", "packed", "sha256"))},
			{
				Name: "add", Usage: "keep an image", ArgsUsage: "FILE|URL",
				UsageText: "bessemer image add debian12.qcow2\nbessemer image add https://example.org/os.raw.zst --name os",
				Flags:     []cli.Flag{&cli.StringFlag{Name: "name", Usage: "its `NAME` (default: the file's, without endings)"}},
				Action:    imageAdd,
			},
			deleteCommand("delete images", "IMAGE...", "/api/v1/images/"),
		},
	}
}

func imageAdd(c *cli.Context) error {
	src, err := one(c, "FILE|URL")
	if err != nil {
		return err
	}
	name := c.String("name")
	if name == "" {
		name = imageName(src)
	}
	cl, err := connect(c)
	if err != nil {
		return err
	}
	if strings.Contains(src, "://") {
		var img map[string]any
		if err := cl.Call(c.Context, http.MethodPost, "/api/v1/images", map[string]any{"name": name, "source": src}, &img); err != nil {
			return err
		}
		return printOne(c, img)
	}
	f, err := os.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return usagef("%s is not a file", src)
	}
	resp, err := cl.Do(c.Context, http.MethodPut, "/api/v1/images/"+url.PathEscape(name), "application/octet-stream", newUpload(c.App.ErrWriter, f, info.Size()))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return printBody(c, resp.Body)
}

// imageName is a source's last part without the endings of image files.
func imageName(src string) string {
	name := src[strings.LastIndex(src, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	for again := true; again; {
		again = false
		for _, e := range []string{".gz", ".zst", ".xz", ".raw", ".img", ".qcow2"} {
			if rest, ok := strings.CutSuffix(name, e); ok && rest != "" {
				name, again = rest, true
			}
		}
	}
	return name
}

// upload shows how far a file has been sent.
type upload struct {
	io.Reader
	w          io.Writer
	done, size int64
	tenth      int64
}

func newUpload(w io.Writer, r io.Reader, size int64) io.Reader {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return r
	}
	return &upload{Reader: r, w: w, size: max(size, 1)}
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	u.done += int64(n)
	if t := 100 * u.done / u.size; t != u.tenth || err != nil {
		u.tenth = t
		fmt.Fprintf(u.w, "\r\x1b[K%d%% of %s", t, bytesText(float64(u.size)))
		if err != nil {
			fmt.Fprint(u.w, "\r\x1b[K")
		}
	}
	return n, err
}

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
					return printOne(c, props)
				},
			},
		},
	}
}

func discoveredCommand() *cli.Command {
	return &cli.Command{
		Name: "discovered", Usage: "machines that ask to boot but belong to no node",
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "list them", ArgsUsage: " ", Action: listAction("/api/v1/discovered", "discovered", columns("mac", "uuid", "arch", "ip", "last_seen", "count", "last_what=last"))},
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
			return printOne(c, s)
		},
	}
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
				fmt.Fprintf(c.App.Writer, "deleted %s\n", id)
			}
			return nil
		},
	}
}
