package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"bessemer/bmc/sim/rack"
	"bessemer/server/client"
	"bessemer/server/load"
)

const maxBench = 10000

func benchCommand() *cli.Command {
	return &cli.Command{
		Name: "bench", Usage: "measure an appliance under the load of N simulated machines", ArgsUsage: "[N]",
		Description: "Runs an appliance and a rack of N simulated machines (100), each in a process of its own, the rack at\n" +
			"a lower priority. Enrolls, manages, provides and deploys all machines, lists nodes meanwhile, sends\n" +
			"heartbeats, and prints a JSON line for each phase and a table. Times of nodes are from the request\n" +
			"to the state asked for.\n\n" +
			"With --kill the appliance, and the machines with it, are killed when half are ACTIVE, and started again.",
		UsageText: "bessemer bench 100\nbessemer bench 1000 --kill\nbessemer bench 1000 -o json > result.jsonl",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "profile", Value: "tiny", Usage: "`PROFILE,...` of the machines, in turns"},
			&cli.StringFlag{Name: "bmc", Value: "mixed", Usage: "`KIND` of their controllers: redfish, ipmi or mixed"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "`NUMBER` that fixes everything random about the machines"},
			&cli.Float64Flag{Name: "pace", Value: 0.01, Usage: "how long waits last, as a `SHARE` of those of real machines"},
			&cli.IntFlag{Name: "workers", Value: 32, Usage: "`N` requests at once"},
			&cli.IntFlag{Name: "heartbeats", Value: 32, Usage: "`N` stand-in agents that send heartbeats at the end; 0 for none"},
			&cli.BoolFlag{Name: "no-clean", Usage: "do not clean the disks before the nodes become available"},
			&cli.BoolFlag{Name: "kill", Usage: "kill the appliance when half of the nodes are ACTIVE, and start it again"},
			&cli.BoolFlag{Name: "one-process", Usage: "run the rack in the appliance's process, as serve --sim does"},
			&cli.StringFlag{Name: "keep", Usage: "`DIR` for the data, which stays there (default: a temporary one)"},
			&cli.DurationFlag{Name: "timeout", Value: 30 * time.Minute, DefaultText: "30m", Usage: "how long all of it may take"},
		},
		Action: func(c *cli.Context) error {
			n, err := machineCount(c, 100, maxBench)
			if err != nil {
				return err
			}
			return runBench(c, n)
		},
	}
}

// runBench starts an appliance, puts the load on it and ends it.
func runBench(c *cli.Context, n int) (err error) {
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()
	dir := c.String("keep")
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bessemer-bench-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	b := &benched{c: c, dir: dir, machines: n}
	defer b.kill()
	took, err := b.start(ctx)
	if err != nil {
		return err
	}
	s := newDisplay(c.App.ErrWriter)
	defer s.leave()
	s.say("appliance (process %d) for %s (seed %d) answers after %s", b.appliance.pid(), count(n, "simulated machine"), c.Uint64("seed"), took.Round(time.Millisecond))
	o, err := b.options(ctx)
	if err != nil {
		return err
	}
	o.Progress = func(phase string, done, total int) { s.over("%s … %d of %d", phase, done, total) }
	o.Report = func(r load.Result) { s.draw(nil); printResult(c, r) }
	results, err := load.Run(ctx, o)
	s.draw(nil)
	if c.String("output") != "json" {
		printResults(c, n, results)
	}
	switch {
	case err != nil:
		return fmt.Errorf("bench %d (seed %d): %w; the appliance's log: %s", n, c.Uint64("seed"), err, b.tail())
	case failures(results) > 0:
		return fmt.Errorf("bench %d (seed %d): %d requests or nodes failed; the first of each phase is in the table", n, c.Uint64("seed"), failures(results))
	}
	return nil
}

// options is the load for the rack that runs.
func (b *benched) options(ctx context.Context) (o load.Options, err error) {
	byName, err := rack.NewClient(filepath.Join(b.dir, rackDir, rackSocket)).Enrollments(ctx, "all")
	if err != nil {
		return o, err
	}
	for _, name := range sortedKeys(byName) {
		e := byName[name]
		o.Nodes = append(o.Nodes, load.Node{Name: e.Name, Driver: e.Driver, DriverInfo: e.DriverInfo, Properties: e.Properties, MACs: e.MACs})
	}
	if o.API, err = client.New(b.url, nil); err != nil {
		return o, err
	}
	if err := addTinyImage(ctx, o.API); err != nil {
		return o, err
	}
	o.Image = map[string]any{"image_source": tinyImage}
	o.Provisioning, o.Memory = b.provisioning, b.memory
	o.Workers, o.Clean = b.c.Int("workers"), !b.c.Bool("no-clean")
	o.Heartbeats, o.HeartbeatFor = b.c.Int("heartbeats"), 5*time.Second
	if b.c.Bool("kill") {
		o.Half = func(ctx context.Context) ([]load.Result, error) { return b.killAndRestart(ctx, o.API) }
	}
	return o, nil
}

func printResult(c *cli.Context, r load.Result) {
	raw, err := json.Marshal(r)
	if err == nil {
		fmt.Fprintf(c.App.Writer, "%s\n", raw)
	}
}

// printResults writes the table.
func printResults(c *cli.Context, n int, results []load.Result) {
	fmt.Fprintln(c.App.Writer)
	w := tabwriter.NewWriter(c.App.Writer, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "phase\tn\terrors\tseconds\tper second\tms per node\tp50 ms\tp99 ms\tmax ms\tRSS MB\track MB\tpeak MB\t")
	for _, r := range results {
		perNode := "-"
		if slices.Contains([]string{"enroll", "manage", "provide", "deploy"}, r.Phase) {
			perNode = fmt.Sprintf("%.1f", r.Seconds*1000/float64(n))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.2f\t%.1f\t%s\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f\t%.0f\t\n",
			r.Phase, r.N, r.Errors, r.Seconds, r.Rate, perNode, r.P50, r.P99, r.Max, r.Memory, r.Rack, r.Peak)
	}
	w.Flush()
	for _, r := range results {
		if r.Error != "" {
			fmt.Fprintf(c.App.Writer, "%s: %s\n", r.Phase, printable(r.Error))
		}
	}
}

func failures(results []load.Result) (n int) {
	for _, r := range results {
		n += r.Errors
	}
	return n
}

// lastOf is a text's last lines, at most 600 bytes.
func lastOf(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > 600 {
		text = "… " + text[len(text)-600:]
	}
	return cmp.Or(text, "it has said nothing")
}
