package cli

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

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
			fmt.Fprint(c.App.Writer, explanation(node, e, time.Now()))
			return nil
		},
	}
}

func explanation(node string, e map[string]any, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s since %s\n%s\n", node, cell(e["state"]), ago(e["since"], now), cell(e["doing"]))
	if v := e["waiting_for"]; !empty(v) {
		fmt.Fprintf(&b, "waits for: %s\n", cell(v))
	}
	if v := e["deadline"]; !empty(v) {
		fmt.Fprintf(&b, "gives up: %s\n", ago(v, now))
	}
	if v := e["last_error"]; !empty(v) {
		fmt.Fprintf(&b, "last error: %s\n", cell(v))
	}
	next, _ := e["next"].([]any)
	for _, x := range next {
		fmt.Fprintf(&b, "→ %s\n", cell(x))
	}
	return b.String()
}
