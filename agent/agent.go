// Package agent runs in the deploy ramdisk. It finds out which node it runs
// on, tells the server that it lives, and does what the server commands: write
// an image, wipe disks, install a boot loader, end the machine.
//
// It speaks Ironic-Python-Agent's protocol (package wire), so a real Ironic can
// command it too. It runs no shell and no code from images. The hardware is
// behind hw.Machine, so the simulated rack runs this very code.
package agent

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"bessemer/agent/fetch"
	"bessemer/agent/hw"
)

// Config is what the boot configuration tells the agent.
type Config struct {
	APIURL        string        // the server, "http://192.0.2.1:6380"
	NodeUUID      string        // "": the server finds the node by the MACs
	Token         string        // "": the first lookup gives one
	Listen        string        // for commands; "": ":9999"
	Listener      net.Listener  // TCP, for commands, in place of Listen; the agent closes it
	AdvertiseHost string        // where the server reaches us; "": the address that reached the server
	LookupTimeout time.Duration // give up looking up after this; 0: never
	DiskWait      time.Duration // how long the root device may take to appear (K-05); 0: 30 s
	Stall         time.Duration // how long a download may stand still before it is begun anew; 0: 30 s
	Memory        int64         // bytes of memory that may hold an image file; 0: an eighth of the machine's
	Insecure      bool          // do not check the server's certificate
	CA            []byte        // PEM, who may sign the server's certificate; nil: the system's
	Console       io.Writer     // gets a line for each thing that a person at the screen wants to know; nil: none
	Version       string        // ours
	Policy        fetch.Policy  // for images and config drives; CA and Insecure hold for it too, its Local for all connections
	Logger        zerolog.Logger

	// Now is the machine's clock, by which the agent's certificate is made;
	// nil: time.Now.
	Now func() time.Time
	// Dice spread the agent's pauses: each call gives a number from 0 to
	// below 1. It may be called by several goroutines. nil: math/rand's.
	// Simulated machines have theirs from a seed.
	Dice func() float64
	// Before, if set, is asked before each command, by its full name; an
	// error is the command's. Simulated machines break their agents with it.
	Before func(command string) error
}

func (c Config) withDefaults() Config {
	if c.Listen == "" {
		c.Listen = ":9999"
	}
	if c.DiskWait == 0 {
		c.DiskWait = 30 * time.Second
	}
	if c.Console == nil {
		c.Console = io.Discard
	}
	if c.Version == "" {
		c.Version = "0"
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Dice == nil {
		c.Dice = rand.Float64
	}
	return c
}

// withTrust makes downloads trust whom the API client trusts: a ramdisk has no
// certificates of its own.
func (c Config) withTrust() (Config, error) {
	c.Policy.Insecure = c.Policy.Insecure || c.Insecure
	if len(c.CA) == 0 {
		return c, nil
	}
	roots := x509.NewCertPool()
	if c.Policy.Roots != nil {
		roots = c.Policy.Roots.Clone()
	}
	if !roots.AppendCertsFromPEM(c.CA) {
		return c, errors.New("the CA for the server's certificate is not a PEM certificate")
	}
	c.Policy.Roots = roots
	return c, nil
}

// errEnded ends the agent after a command has powered off or rebooted a
// machine whose PowerOff returns, as a simulated one's does.
var errEnded = errors.New("the machine was powered off or rebooted")

// Run looks the node up, then heartbeats and serves commands until ctx ends or
// a command ends the machine; both return nil. It fails when the server cannot
// be found in time, gives no token, or the port for commands is taken.
func Run(ctx context.Context, c Config, m hw.Machine) error {
	c, err := c.withDefaults().withTrust()
	if err != nil {
		return err
	}
	ln, err := listen(c)
	if err != nil {
		return err
	}
	defer ln.Close()
	api, err := newAPI(c)
	if err != nil {
		return err
	}
	defer api.client.CloseIdleConnections()
	con := newConsole(c.Console)
	node, err := lookup(ctx, c, api, m, con)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	id, err := newIdentity(c, ln, node)
	if err != nil {
		return err
	}
	con.say("node %s found, serving commands on %s", node.UUID, id.url)
	err = serve(ctx, c, m, api, node, id, ln, con)
	if errors.Is(err, errEnded) || ctx.Err() != nil {
		return nil
	}
	return err
}

// serve runs the two halves of the agent; when one ends, both do. While the
// agent waits, this goroutine is one of the two: a simulated rack has thousands.
func serve(ctx context.Context, c Config, m hw.Machine, api *api, node *node, id *identity, ln *listener, con *console) error {
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	beat := newHeart(c, api, node, id)
	x := newExecutor(ctx, c, m, node, beat, con)
	beat.locked = x.locked
	g.Go(func() error { return beat.run(ctx) })
	g.Go(func() error {
		return serveHTTP(ctx, x.serving, ln.Listener, id, newHandler(x, node.token, c.Version, id.url))
	})
	err := x.run(ctx)
	stop()
	if first := g.Wait(); !errors.Is(err, errEnded) {
		err = first
	}
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}
