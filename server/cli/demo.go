package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"bessemer/bmc"
	"bessemer/bmc/sim/hardware"
	"bessemer/bmc/sim/rack"
	"bessemer/configs"
	"bessemer/server"
	"bessemer/server/client"
)

const (
	demoMachines    = 12
	maxDemoMachines = 1000
	demoPace        = 0.03 // power and POST can be seen, and the whole is over in a quarter of a minute
)

func demoCommand(types bmc.Types) *cli.Command {
	return &cli.Command{
		Name: "demo", Usage: "deploy a rack of simulated machines before your eyes", ArgsUsage: "[N]",
		Description: "Runs an appliance with N simulated machines (12) in a temporary directory, on loopback,\n" +
			"without authentication, deploys half of them, and goes on until Ctrl-C. It needs neither\n" +
			"root nor hardware, and leaves nothing behind. Controllers, firmware, disks and network are\n" +
			"simulated; everything that talks to them is what deploys real machines.",
		UsageText: "bessemer demo\nbessemer demo 40 --quirk B-02,R-06\nbessemer demo --exit",
		Flags: append(rackFlags("", "", demoPace),
			&cli.BoolFlag{Name: "exit", Usage: "end when all are ACTIVE, with exit code 1 if one is not"},
			&cli.DurationFlag{Name: "timeout", Value: 5 * time.Minute, DefaultText: "5m", Usage: "how long the deploys may take with --exit"},
			&cli.BoolFlag{Name: "verbose", Usage: "show the appliance's log"},
		),
		Action: func(c *cli.Context) error {
			n, err := machineCount(c, demoMachines, maxDemoMachines)
			if err != nil {
				return err
			}
			o, err := rackOptions(c, "")
			if err != nil {
				return err
			}
			if len(o.Profiles) == 0 {
				o.Profiles = profileNames(func(p hardware.Profile) bool { return p.POST > 0 }) // those that one can buy
			}
			return runDemo(c, types, o, n)
		},
	}
}

// machineCount reads the argument N.
func machineCount(c *cli.Context, def, most int) (int, error) {
	if c.NArg() == 0 {
		return def, nil
	}
	arg, err := one(c, "[N]")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(arg)
	if err != nil || n < 1 || n > most {
		return 0, usagef("%q is not a number of machines, from 1 to %d", arg, most)
	}
	return n, nil
}

// A demo is one that runs.
type demo struct {
	dir     demoDir
	rack    *rack.Rack
	cl      *client.Client
	display *display
	exit    bool
	limit   time.Duration
}

// runDemo runs a demo until it is interrupted or, with --exit, done. Whatever
// happens, its directory goes.
func runDemo(c *cli.Context, types bmc.Types, o rack.Options, n int) (err error) {
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGHUP) // the terminal was closed
	defer stop()
	dir, err := newDemoDir(socketDir())
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, dir.remove()); err == nil && !c.Bool("exit") {
			fmt.Fprintln(c.App.Writer, "The demo has ended; nothing of it is left.")
		}
	}()
	log, last := demoLog(c)
	s, err := server.Open(ctx, server.Options{Config: demoConfig(dir.path), Types: types, Version: Version(), Log: log})
	if err != nil {
		return err
	}
	d := &demo{dir: dir, display: newDisplay(c.App.Writer), exit: c.Bool("exit"), limit: c.Duration("timeout")}
	if err := d.furnish(s, o, n, log); err != nil {
		return errors.Join(err, s.Close())
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	var outcome error
	s.Add("demo", func(ctx context.Context) error {
		defer end()
		outcome = d.show(ctx)
		return ctx.Err()
	})
	err = s.Run(ctx)
	if err = errors.Join(err, outcome); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w%s\nthe machines' seed was %d", err, last.text(), o.Seed)
	}
	return nil
}

// demoConfig is an appliance that touches nothing but its directory and
// loopback.
func demoConfig(dir string) configs.Config {
	c := configs.Default()
	c.DataDir = dir
	c.API.Listen, c.API.Auth = "127.0.0.1:0", "none"
	c.Provisioning.Interface, c.Provisioning.Port = configs.Simulated, 0
	c.Conductor.Hostname = "demo"
	return c
}

// socketDir is where temporary directories go; a socket's path must be short.
func socketDir() string {
	if dir := os.TempDir(); len(dir) < 64 {
		return dir
	}
	return "/tmp"
}

// furnish puts the rack into the appliance. Its machines are enrolled by the
// demo itself, which shows it.
func (d *demo) furnish(s *server.Server, o rack.Options, n int, log zerolog.Logger) (err error) {
	o.Dir, o.Wire, o.Machines, o.Log = s.Config.Path(rackDir), s.Wire(), n, log.With().Str("part", "rack").Logger()
	if d.cl, err = ownClient(s); err != nil {
		return err
	}
	if d.rack, err = openRack(o, 0); err != nil {
		return err
	}
	control, err := rack.Listen(s.Config.Path(rackDir, rackSocket))
	if err != nil {
		return errors.Join(err, d.rack.Close())
	}
	s.Add("rack", rackComponent(d.rack, control, o.Log))
	return nil
}

// show is what one sees.
func (d *demo) show(ctx context.Context) error {
	defer d.display.leave()
	machines := d.rack.Machines()
	d.display.say("Bessemer demo: %s, nothing of it needs root or hardware", count(len(machines), "simulated machine"))
	d.display.say("API %s, no authentication", d.cl.Base)
	begun := time.Now()
	err := enrollRack(ctx, d.cl, d.rack, func(done, total int) { d.display.over("enrolling … %d of %d", done, total) })
	if err != nil {
		return err
	}
	if err := addTinyImage(ctx, d.cl); err != nil {
		return err
	}
	d.display.say("%d machines enrolled and available after %s; deploying %d of them with the image %q", len(machines), tookText(time.Since(begun)), half(len(machines)), tinyImage)
	d.display.say("")
	if err := d.deploy(ctx, machines[:half(len(machines))]); err != nil || d.exit {
		return err
	}
	d.display.say("Ctrl-C ends it, and removes %s.", d.dir.path)
	<-ctx.Done()
	return ctx.Err()
}

func half(n int) int { return (n + 1) / 2 }

// deploy deploys machines and shows how far they are, until all are done.
func (d *demo) deploy(ctx context.Context, machines []*rack.Machine) error {
	w := newDemoWatch(d, machines)
	var group errgroup.Group
	group.SetLimit(8)
	for i, m := range machines {
		group.Go(func() error { return d.start(ctx, m.Name(), hostname(i)) })
	}
	asked := make(chan error, 1)
	go func() { asked <- group.Wait() }()
	err := w.watch(ctx, asked)
	if err == nil {
		d.summary(w)
	}
	return err
}

func hostname(i int) string { return fmt.Sprintf("web-%d", i+1) }

// start asks for one deploy, as any client does.
func (d *demo) start(ctx context.Context, node, host string) error {
	err := d.cl.Call(ctx, http.MethodPatch, nodePath(node), []map[string]any{
		{"op": "add", "path": "/instance_info/image_source", "value": tinyImage},
	}, nil)
	if err == nil {
		err = d.cl.Call(ctx, http.MethodPut, "/v1/nodes/"+url.PathEscape(node)+"/states/provision", map[string]any{
			"target": "active", "configdrive": map[string]any{"meta_data": map[string]any{"hostname": host, "name": host}},
		}, nil)
	}
	if err != nil {
		return fmt.Errorf("deploy %s: %w", node, err)
	}
	return nil
}

// lastLines keeps the end of a log, for when something goes wrong.
type lastLines struct {
	mu    sync.Mutex
	lines []string
}

// Write implements [io.Writer]; zerolog writes whole lines.
func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines = append(l.lines, string(p)); len(l.lines) > 20 {
		l.lines = l.lines[1:]
	}
	return len(p), nil
}

func (l *lastLines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return ""
	}
	return "\nwarnings of the appliance:\n" + strings.TrimRight(strings.Join(l.lines, ""), "\n")
}

// demoLog is the appliance's log: on request with all that it says, else only
// what is wrong, and only when the demo fails.
func demoLog(c *cli.Context) (zerolog.Logger, *lastLines) {
	last := &lastLines{}
	if c.Bool("verbose") {
		return logger(configs.Log{Level: "info", Format: "console"}, c.App.ErrWriter), last
	}
	w := zerolog.ConsoleWriter{Out: last, NoColor: true, TimeFormat: "15:04:05.000"}
	return zerolog.New(w).Level(zerolog.WarnLevel).With().Timestamp().Logger(), last
}
