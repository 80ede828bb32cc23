package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"bessemer/bmc/sim/firmware"
	"bessemer/bmc/sim/rack"
	"bessemer/configs"
	"bessemer/server"
)

const (
	maxRack    = 10000
	rackLog    = "rack.log"
	detachWait = 30 * time.Second
)

func simUp() *cli.Command {
	return &cli.Command{
		Name: "up", Usage: "run simulated machines in a process of their own, beside an appliance", ArgsUsage: "[N]",
		Description: "Needs an appliance on the simulated network: bessemer serve --provisioning-interface sim.\n" +
			"The machines survive its death and its restarts. Without N the rack has those that it had,\n" +
			"or 8. Ctrl-C ends it as a power cut does.",
		UsageText: "bessemer sim up 20\nbessemer sim up 20 --bmc ipmi --quirk B-02 --detach\nbessemer sim up",
		Flags: append(rackFlags("", "", usualPace),
			&cli.BoolFlag{Name: "no-enroll", Usage: "do not make nodes of them"},
			&cli.BoolFlag{Name: "detach", Usage: "go on in the background; end it with bessemer sim down"},
		),
		Action: func(c *cli.Context) error {
			n, err := machineCount(c, 0, maxRack)
			if err != nil {
				return err
			}
			o, err := rackOptions(c, "")
			if err != nil {
				return err
			}
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			if err := canRack(cfg); err != nil {
				return err
			}
			if c.Bool("detach") {
				return detach(c, cfg)
			}
			return runRack(c, cfg, o, n)
		},
	}
}

// canRack tells whether there is a network to put a rack on, and none on it.
func canRack(cfg configs.Config) error {
	if reaches(controlSocket(cfg)) == nil {
		return fmt.Errorf("a simulated rack runs already in %s; see bessemer sim status, end it with bessemer sim down", cfg.Path(rackDir))
	}
	wire := cfg.Path(server.WireSocket)
	if err := reaches(wire); err != nil {
		return fmt.Errorf("no appliance with a simulated network answers at %s: %w; start one with bessemer serve --provisioning-interface sim, "+
			"or, all in one process, bessemer serve --sim N; that of another appliance: --data-dir DIR", wire, err)
	}
	return nil
}

// runRack runs a rack until it is interrupted or taken down.
func runRack(c *cli.Context, cfg configs.Config, o rack.Options, n int) error {
	o.Dir, o.Wire, o.Machines = cfg.Path(rackDir), firmware.NewRemote(cfg.Path(server.WireSocket)), n
	o.Log = logger(cfg.Log, c.App.ErrWriter)
	r, err := openRack(o, 8)
	if err != nil {
		return err
	}
	control, err := rack.Listen(controlSocket(cfg))
	if err != nil {
		return errors.Join(err, r.Close())
	}
	ctx, end := context.WithCancel(c.Context)
	defer end()
	var group errgroup.Group
	group.Go(func() error { defer end(); return runWithControl(ctx, r, control) })
	s := newDisplay(c.App.ErrWriter)
	defer s.leave()
	s.say("%s in %s; status: bessemer sim status, end: Ctrl-C or bessemer sim down", count(len(r.Machines()), "simulated machine"), o.Dir)
	if !c.Bool("no-enroll") {
		if err := enrollFrom(ctx, c, r, s); err != nil && ctx.Err() == nil {
			s.say("bessemer: %v", err)
		}
	}
	group.Go(func() error { return rackLine(ctx, s, r) })
	return group.Wait()
}

// enrollFrom enrolls the machines at the appliance that the flags name.
func enrollFrom(ctx context.Context, c *cli.Context, r *rack.Rack, s *display) error {
	cl, err := connect(c)
	if err != nil {
		return err
	}
	begun := time.Now()
	err = errors.Join(addTinyImage(ctx, cl), enrollRack(ctx, cl, r, func(done, total int) { s.over("enrolling … %d of %d", done, total) }))
	if err == nil {
		s.say("enrolled and available after %s", took(time.Since(begun)))
	}
	return err
}

// rackLine shows on one line what the machines do, until ctx ends.
func rackLine(ctx context.Context, s *display, r *rack.Rack) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		s.over("%s", rackText(r.Machines()))
		select {
		case <-ctx.Done():
			s.draw(nil)
			return nil
		case <-t.C:
		}
	}
}

// rackText counts machines by what they do.
func rackText(machines []*rack.Machine) string {
	n := map[string]int{}
	for _, m := range machines {
		n[string(m.Status().Stage)]++
	}
	text := count(len(machines), "machine") + ":"
	for i, stage := range sortedKeys(n) {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %d %s", n[stage], stage)
	}
	return text
}

// openRack makes a rack, or takes up the one that is there, and puts it on the
// network. A new one for which no number is asked has few machines.
func openRack(o rack.Options, few int) (*rack.Rack, error) {
	r, err := rack.New(o)
	if err != nil {
		return nil, err
	}
	if len(r.Machines()) == 0 {
		_, err = r.Add(few, "")
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, r.Open()
}

// runWithControl runs a rack and serves its control socket, until ctx ends or
// the rack is taken down.
func runWithControl(ctx context.Context, r *rack.Rack, control net.Listener) error {
	srv := &http.Server{Handler: rack.Handler(r), ReadHeaderTimeout: 10 * time.Second}
	var group errgroup.Group
	group.Go(func() error {
		if err := srv.Serve(control); !errors.Is(err, http.ErrServerClosed) {
			r.Down()
			return fmt.Errorf("serve the rack's control socket: %w", err)
		}
		return nil
	})
	err := r.Run(ctx)
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // for the answer to who took it down
	defer cancel()
	if srv.Shutdown(wait) != nil {
		_ = srv.Close()
	}
	return errors.Join(err, group.Wait())
}

// awaitDown waits until a rack has let go of its socket.
func awaitDown(ctx context.Context, socket string) error {
	for reaches(socket) == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// detach runs this program again, without --detach, in a session of its own,
// and waits until the rack answers.
func detach(c *cli.Context, cfg configs.Config) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Path(rackDir), 0o700); err != nil {
		return err
	}
	path := cfg.Path(rackDir, rackLog)
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self, withoutDetach(os.Args[1:])...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the rack: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // it outlives this process
	for deadline := time.Now().Add(detachWait); reaches(controlSocket(cfg)) != nil; {
		select {
		case err := <-ended:
			text, _ := os.ReadFile(path)
			return fmt.Errorf("the rack has ended: %w: %s", err, strings.TrimSpace(string(text)))
		case <-c.Context.Done():
			return c.Context.Err()
		case <-time.After(50 * time.Millisecond):
			if time.Now().After(deadline) {
				return fmt.Errorf("%w: the rack (process %d) does not answer; see %s", errTimeout, cmd.Process.Pid, path)
			}
		}
	}
	say(c, "the rack runs as process %d and logs to %s; end it with bessemer sim down", cmd.Process.Pid, path)
	return nil
}

// withoutDetach is a command line without its --detach.
func withoutDetach(args []string) (out []string) {
	for _, a := range args {
		if name := flagName(a); !strings.HasPrefix(a, "-") || name != "detach" {
			out = append(out, a)
		}
	}
	return out
}
