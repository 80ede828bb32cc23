package cli

import (
	"bufio"
	"encoding/json"
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
		Name: "trace", Usage: "show every message of a node's last run", ArgsUsage: "NODE",
		UsageText: "bessemer node trace n1\nbessemer node trace n1 --follow\nbessemer node trace n1 --format seqdiag > n1.diag",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Value: "text", Usage: strings.Join(trace.Formats(), ", ")},
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
			cl, err := connect(c)
			if err != nil {
				return err
			}
			if c.Bool("follow") {
				return follow(c, cl, node)
			}
			resp, err := cl.Do(c.Context, http.MethodGet, "/api/v1/nodes/"+url.PathEscape(node)+"/trace?format="+format, "", nil)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(c.App.Writer, resp.Body)
			return err
		},
	}
}

// follow prints messages as they come and goes on where it was when the
// connection breaks.
func follow(c *cli.Context, cl *client.Client, node string) error {
	var n map[string]any
	if err := cl.Get(c.Context, nodePath(node), &n); err != nil {
		return err
	}
	after := ""
	for c.Context.Err() == nil {
		path := "/api/v1/events?node=" + url.QueryEscape(fmt.Sprint(n["uuid"])) + after
		resp, err := cl.Do(c.Context, http.MethodGet, path, "", nil)
		if err == nil {
			after = printEvents(c, resp.Body, after)
			resp.Body.Close()
			continue
		}
		if e, ok := err.(*client.Error); ok && e.Status < 500 {
			return err
		}
		select {
		case <-c.Context.Done():
		case <-time.After(time.Second):
		}
	}
	return nil
}

func printEvents(c *cli.Context, r io.Reader, after string) string {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		var m store.Message
		if json.Unmarshal([]byte(data), &m) != nil || m.Seq == 0 {
			continue
		}
		after = fmt.Sprintf("&after=%d", m.Seq)
		if c.String("output") == "json" || c.String("format") == "json" {
			fmt.Fprintln(c.App.Writer, strings.TrimSpace(data))
			continue
		}
		fmt.Fprintln(c.App.Writer, eventLine(m))
	}
	return after
}

func eventLine(m store.Message) string {
	arrow := "->"
	if m.Kind == store.Reply {
		arrow = "<-"
	}
	line := fmt.Sprintf("%s  %-11s %s %-11s %s", m.Time.Local().Format("15:04:05.000"), m.From, arrow, m.To, printable(m.Label))
	if m.Dur > 0 {
		line += fmt.Sprintf(" (%v)", m.Dur.Round(time.Millisecond))
	}
	if m.Error != "" {
		line += "  ✗ " + printable(m.Error)
	}
	return line
}

func nodeExplain() *cli.Command {
	return &cli.Command{
		Name: "explain", Usage: "say what a node does, since when, what it waits for and what to do", ArgsUsage: "NODE",
		Action: func(c *cli.Context) error {
			node, err := one(c, "NODE")
			if err != nil {
				return err
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			var e map[string]any
			if err := cl.Get(c.Context, "/api/v1/nodes/"+url.PathEscape(node)+"/explain", &e); err != nil {
				return err
			}
			if done, err := printData(c, e); done {
				return err
			}
			w := c.App.Writer
			fmt.Fprintf(w, "%s is %s since %s\n%s\n", node, cell(e["state"]), cell(e["since"]), cell(e["doing"]))
			for _, k := range []string{"waiting_for", "deadline", "last_error"} {
				if v, ok := e[k].(string); ok && v != "" {
					fmt.Fprintf(w, "%s: %s\n", strings.ReplaceAll(k, "_", " "), printable(v))
				}
			}
			next, _ := e["next"].([]any)
			for _, x := range next {
				fmt.Fprintf(w, "→ %s\n", cell(x))
			}
			return nil
		},
	}
}
