package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"bessemer/server/client"
	"bessemer/store"
)

// wait follows a node until it rests, showing each step and a progress bar.
// An empty goal means any state at rest.
func wait(c *cli.Context, cl *client.Client, node string, goal []string) error {
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
	defer cancel()
	show := newProgress(c.App.ErrWriter)
	begun := time.Now()
	n, err := cl.WaitState(ctx, node, atRest, func(n map[string]any) {
		var runs struct{ Runs []store.Run }
		if cl.Get(ctx, "/api/v1/runs?limit=1&node="+url.QueryEscape(fmt.Sprint(n["uuid"])), &runs) == nil && len(runs.Runs) > 0 {
			show.run(runs.Runs[0])
		}
	})
	show.end()
	if err != nil && ctx.Err() != nil && c.Context.Err() == nil {
		return fmt.Errorf("%w after %v: %s is still %v; it goes on, see: bessemer node explain %s", errTimeout, c.Duration("timeout"), node, n["provision_state"], node)
	}
	if err != nil {
		return err
	}
	state := fmt.Sprint(n["provision_state"])
	if len(goal) > 0 && !slices.Contains(goal, state) {
		return fmt.Errorf("%s is %s: %v", node, state, n["last_error"])
	}
	fmt.Fprintf(c.App.ErrWriter, "%s is %s after %s\n", node, state, time.Since(begun).Round(100*time.Millisecond))
	return nil
}

// atRest tells whether a node goes nowhere by itself.
func atRest(n map[string]any) bool {
	s := fmt.Sprint(n["provision_state"])
	return n["target_provision_state"] == nil && !strings.HasSuffix(s, "ing") && !strings.Contains(s, "wait") ||
		strings.HasSuffix(s, "failed") || s == "error"
}

// progress shows the steps of a run as they end, and how far the present one
// has come on a last line that is written over on a terminal.
type progress struct {
	w     io.Writer
	tty   bool
	id    uint64
	shown int
	line  string
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, tty: ok && term.IsTerminal(int(f.Fd()))}
}

func (p *progress) run(r store.Run) {
	if r.ID != p.id {
		p.clear()
		fmt.Fprintf(p.w, "%s (run %d)\n", r.Workflow, r.ID)
		p.id, p.shown = r.ID, 0
	}
	for ; p.shown < len(r.Steps); p.shown++ {
		s := r.Steps[p.shown]
		if s.Outcome == "" || s.Outcome == store.Running {
			break
		}
		p.clear()
		fmt.Fprintf(p.w, "  %s %-26s %7s%s\n", mark(s.Outcome), s.Name, s.Ended.Sub(s.Started).Round(10*time.Millisecond), suffix(s.Error))
	}
	if p.shown < len(r.Steps) && p.tty {
		p.over("  … " + r.Steps[p.shown].Name + "  " + how(r))
	}
}

func mark(o store.Outcome) string {
	return map[store.Outcome]string{store.OK: "✓", store.Failed: "✗", store.Skipped: "-", store.Aborted: "✗"}[o]
}

func suffix(s string) string {
	if s == "" {
		return ""
	}
	return "  " + printable(s)
}

// how is what a running step does: a bar, or what it waits for.
func how(r store.Run) string {
	g := r.Progress
	if g == nil {
		return printable(r.WaitingFor)
	}
	text := fmt.Sprintf("%s %s", printable(g.What), bytesText(float64(g.Done)))
	if g.Total > 0 {
		full := int(min(20, 20*g.Done/g.Total))
		text = fmt.Sprintf("%s [%s%s] %d%% of %s", printable(g.What), strings.Repeat("█", full), strings.Repeat("░", 20-full), 100*g.Done/g.Total, bytesText(float64(g.Total)))
	}
	if g.Rate > 0 {
		text += fmt.Sprintf(", %s/s", bytesText(g.Rate))
	}
	if g.ETA > 0 {
		text += fmt.Sprintf(", %.0f s left", g.ETA)
	}
	return text
}

func (p *progress) over(line string) {
	if line == p.line {
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
	p.line = line
}

func (p *progress) clear() {
	if p.line != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.line = ""
	}
}

func (p *progress) end() { p.clear() }
