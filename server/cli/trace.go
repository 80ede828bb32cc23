package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"bessemer/server/client"
	"bessemer/server/trace"
	"bessemer/store"
)

func nodeTrace() *cli.Command {
	return &cli.Command{
		Name: "trace", Usage: "show every message of a node's last run, or of an older one", ArgsUsage: "NODE",
		UsageText: "bessemer node trace n1\nbessemer node trace n1 --follow\nbessemer node trace n1 --run 7 --format seqdiag > n1.diag",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Value: "text", Usage: strings.Join(trace.Formats(), ", ")},
			&cli.Uint64Flag{Name: "run", Usage: "the `RUN` to show, as node runs lists them", DefaultText: "the last"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on as messages come"},
		},
		Action: func(c *cli.Context) error {
			node, err := one(c, "NODE")
			if err != nil {
				return err
			}
			format := c.String("format")
			if !slices.Contains(trace.Formats(), format) {
				return usagef("--format %s: it is one of %s", format, strings.Join(trace.Formats(), ", "))
			}
			if c.Bool("follow") && format != "text" && format != "json" {
				return usagef("--follow goes with --format text or json: a diagram is drawn when all is known")
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			path, err := tracePath(c, cl, node)
			if err != nil {
				return err
			}
			if c.Bool("follow") {
				return follow(c, cl, node, path)
			}
			if c.String("output") == "json" {
				format = "json"
			}
			resp, err := cl.Do(c.Context, http.MethodGet, path+"?format="+format, "", nil)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(c.App.Writer, resp.Body)
			return err
		},
	}
}

// tracePath is where the trace is that the flags ask for.
func tracePath(c *cli.Context, cl *client.Client, node string) (string, error) {
	if !c.IsSet("run") {
		return "/api/v1/nodes/" + url.PathEscape(node) + "/trace", nil
	}
	id := fmt.Sprint(c.Uint64("run"))
	var run struct{ Node string }
	if err := cl.Get(c.Context, "/api/v1/runs/"+id, &run); err != nil {
		return "", err
	}
	var n struct{ UUID string }
	if err := cl.Get(c.Context, nodePath(node), &n); err != nil {
		return "", err
	}
	if run.Node != n.UUID {
		return "", usagef("run %s is not one of %s; see: bessemer node runs %s", id, node, node)
	}
	return "/api/v1/traces/" + id, nil
}

// follow prints the messages that are there, then those that come, until it
// is interrupted. When the connection breaks it goes on where it was.
func follow(c *cli.Context, cl *client.Client, node, path string) error {
	var n map[string]any
	if err := cl.Get(c.Context, nodePath(node), &n); err != nil {
		return err
	}
	var past struct{ Messages []json.RawMessage }
	if err := cl.Get(c.Context, path, &past); err != nil {
		return err
	}
	var after uint64
	for _, raw := range past.Messages {
		after = printMessage(c, raw, after)
	}
	for c.Context.Err() == nil {
		path := fmt.Sprintf("/api/v1/events?node=%s&after=%d", url.QueryEscape(fmt.Sprint(n["uuid"])), after)
		if c.IsSet("run") {
			path += fmt.Sprintf("&run=%d", c.Uint64("run"))
		}
		resp, err := cl.Do(c.Context, http.MethodGet, path, "", nil)
		if err == nil {
			after = printEvents(c, resp.Body, after)
			resp.Body.Close()
		} else if e, ok := errors.AsType[*client.Error](err); ok && e.Status < 500 {
			return err
		}
		select {
		case <-c.Context.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

// printEvents prints what an event stream brings, and returns the number of
// the last message.
func printEvents(c *cli.Context, r io.Reader, after uint64) uint64 {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data:"); ok {
			after = printMessage(c, []byte(strings.TrimSpace(data)), after)
		}
	}
	return after
}

func printMessage(c *cli.Context, raw []byte, after uint64) uint64 {
	var m store.Message
	if json.Unmarshal(raw, &m) != nil || m.Seq == 0 {
		return after
	}
	if c.String("output") == "json" || c.String("format") == "json" {
		fmt.Fprintf(c.App.Writer, "%s\n", raw)
	} else {
		fmt.Fprintln(c.App.Writer, eventLine(m))
	}
	return max(after, m.Seq)
}

func eventLine(m store.Message) string {
	return m.Time.Local().Format("15:04:05.000") + "  " + trace.Line(m)
}
