package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"bessemer/configs"
	"bessemer/server/client"
	"bessemer/store"
)

var (
	// errTimeout is what --wait ends with when its time is up.
	errTimeout = errors.New("timed out")
	// errInterrupted is what a command ends with after Ctrl-C.
	errInterrupted = errors.New("interrupted")
)

func waitFlags(def time.Duration, usage string) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "wait", Usage: usage},
		&cli.DurationFlag{Name: "timeout", Value: def, DefaultText: configs.Duration(def).String(), Usage: "how long --wait waits, such as 90s or 2h"},
	}
}

// A watch follows what a request sets going in a node.
type watch struct {
	cl   *client.Client
	node string
	old  uint64 // the run that was over before the request; 0: none
}

// newWatch is to be called before the request.
func newWatch(c *cli.Context, cl *client.Client, node string) watch {
	w := watch{cl: cl, node: node}
	if r, ok := w.lastRun(c.Context); ok && r.Outcome != store.Running {
		w.old = r.ID
	}
	return w
}

func (w watch) lastRun(ctx context.Context) (store.Run, bool) {
	var list struct{ Runs []store.Run }
	err := w.cl.Get(ctx, "/api/v1/runs?limit=1&node="+url.QueryEscape(w.node), &list)
	if err != nil || len(list.Runs) == 0 {
		return store.Run{}, false
	}
	return list.Runs[0], true
}

// wait follows the node until it rests, showing each step and a progress bar.
// An empty goal means any state at rest. What goes on in the node does so
// whether this waits or not.
func (w watch) wait(c *cli.Context, what string, goal []string) error {
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()
	show := newProgress(c.App.ErrWriter)
	begun := time.Now()
	n, err := w.cl.WaitState(ctx, w.node, atRest, func(map[string]any) {
		if r, ok := w.lastRun(ctx); ok && r.ID != w.old {
			show.run(r)
		}
	})
	show.clear()
	if err != nil {
		return unfinished(c, ctx, err, fmt.Sprintf("%s of %s goes on; see: bessemer node explain %s", what, w.node, w.node))
	}
	state := fmt.Sprint(n["provision_state"])
	if len(goal) > 0 && !slices.Contains(goal, state) {
		return fmt.Errorf("%s is %s: %s; see: bessemer node trace %s", w.node, state, cell(n["last_error"]), w.node)
	}
	after := ""
	if d := time.Since(begun); d >= time.Second {
		after = " after " + took(d)
	}
	say(c, "%s is %s%s", w.node, state, after)
	return nil
}

// unfinished says why waiting ended before what was waited for.
func unfinished(c *cli.Context, ctx context.Context, err error, goesOn string) error {
	switch {
	case c.Context.Err() != nil:
		return fmt.Errorf("%w; %s", errInterrupted, goesOn)
	case ctx.Err() != nil:
		return fmt.Errorf("%w after %v; %s", errTimeout, configs.Duration(c.Duration("timeout")), goesOn)
	}
	return err
}

// atRest tells whether a node goes nowhere by itself.
func atRest(n map[string]any) bool {
	s := fmt.Sprint(n["provision_state"])
	return n["target_provision_state"] == nil && !strings.HasSuffix(s, "ing") && !strings.Contains(s, "wait") ||
		strings.HasSuffix(s, "failed") || s == "error"
}
