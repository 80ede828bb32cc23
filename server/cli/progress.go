package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"bessemer/store"
)

// progress shows the steps of a run as they end, and what the present one does:
// on a terminal on a last line that is written over, elsewhere as a line for
// each thing it waits for and each tenth of the way.
type progress struct {
	w     io.Writer
	width func() int // of the terminal; nil when there is none
	id    uint64
	shown int
	line  string
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.width = func() int {
			if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
				return n
			}
			return 80
		}
	}
	return p
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
		fmt.Fprintf(p.w, "  %s %-26s %9s%s\n", mark(s.Outcome), s.Name, took(s.Ended.Sub(s.Started)), suffix(s.Error))
	}
	if p.shown == len(r.Steps) {
		return
	}
	step := r.Steps[p.shown].Name
	switch {
	case p.width != nil:
		p.over(clip(strings.TrimRight("  … "+step+"  "+how(r), " "), p.width()-1))
	case how(r) != "":
		p.once(step+stage(r), "  … "+step+"  "+how(r))
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
		if r.WaitingFor == "" {
			return ""
		}
		return "waits for " + printable(r.WaitingFor)
	}
	text := fmt.Sprintf("%s %s", printable(g.What), bytesText(float64(g.Done)))
	if g.Total > 0 {
		full := int(max(0, min(20, 20*g.Done/g.Total)))
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

// stage changes when there is something new to say without a terminal.
func stage(r store.Run) string {
	if g := r.Progress; g != nil {
		return fmt.Sprint(g.What, 10*g.Done/max(1, g.Total))
	}
	return r.WaitingFor
}

func (p *progress) once(key, line string) {
	if key != p.line {
		fmt.Fprintln(p.w, line)
		p.line = key
	}
}

func (p *progress) over(line string) {
	if line != p.line {
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
		p.line = line
	}
}

// clear takes the last line away before something else is written.
func (p *progress) clear() {
	if p.line != "" && p.width != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.line = ""
	}
}
