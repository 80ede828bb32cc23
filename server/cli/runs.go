package cli

import (
	"fmt"
	"net/url"
	"time"

	"github.com/urfave/cli/v2"
)

func nodeRuns() *cli.Command {
	return &cli.Command{
		Name: "runs", Usage: "list what was done to a node, the newest first", ArgsUsage: "NODE",
		UsageText: "bessemer node runs n1\nbessemer node trace n1 --run 7",
		Flags:     []cli.Flag{&cli.IntFlag{Name: "limit", Value: 20, Usage: "how many"}},
		Action: func(c *cli.Context) error {
			node, err := one(c, "NODE")
			if err != nil {
				return err
			}
			limit := c.Int("limit")
			if limit < 1 || limit > 1000 {
				return usagef("--limit %d: it is 1 to 1000", limit)
			}
			rows, err := listAll(c, fmt.Sprintf("/api/v1/runs?limit=%d&node=%s", limit, url.QueryEscape(node)), "runs")
			if err != nil {
				return err
			}
			if done, err := printData(c, rows); done {
				return err
			}
			for _, r := range rows {
				r["took"] = runTook(r, time.Now())
			}
			return printList(c, rows, columns("id=run", "workflow", "outcome", "started", "took", "error"))
		},
	}
}

// runTook is how long a run has taken, so far if it goes on.
func runTook(r map[string]any, now time.Time) string {
	text, _ := r["started"].(string)
	begun, ok := timeOf(text)
	if !ok {
		return ""
	}
	text, _ = r["ended"].(string)
	if ended, ok := timeOf(text); ok {
		now = ended
	}
	return took(now.Sub(begun))
}
