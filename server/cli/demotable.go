package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A demoRow is one machine as the demo shows it.
type demoRow struct {
	Name, Model, BMC string
	State            string  // provision state
	Doing            string  // what goes on, or what came of it
	Share            float64 // of the way to ACTIVE, 0 to 1; negative: it goes nowhere
	Took             time.Duration
}

// A look is how text is coloured: by nothing but its argument when there is no
// terminal.
type look bool

// Colours by their SGR codes (ECMA-48, 8.3.117).
const (
	plainText = ""
	dim       = "2"
	bold      = "1"
	red       = "31"
	green     = "32"
	yellow    = "33"
	cyan      = "36"
)

func (l look) paint(code, text string) string {
	if !l || code == plainText || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// sign is a state at a glance, told by its shape as well as by its colour.
func sign(state string) (mark, colour string) {
	switch {
	case state == "active":
		return "●", green
	case strings.HasSuffix(state, "failed") || state == "error":
		return "✗", red
	case state == "available":
		return "○", dim
	case state == "":
		return " ", plainText
	}
	return "◐", yellow
}

// demoBar draws how far a machine is, in n columns.
func demoBar(l look, share float64, colour string, n int) string {
	if share < 0 || n < len(" 100%") {
		return strings.Repeat(" ", n)
	}
	n -= len(" 100%")
	full := int(share*float64(n) + 0.5)
	return l.paint(colour, strings.Repeat("█", full)) + l.paint(dim, strings.Repeat("░", n-full)) + fmt.Sprintf(" %3.0f%%", 100*share)
}

// widths are those of the table's columns; one of 0 is not there. What is left
// of them are two spaces.
type widths struct{ name, model, bmc, state, doing, bar, took int }

// measure makes columns as wide as what is in them.
func measure(rows []demoRow) widths {
	w := widths{name: 7, model: 5, bmc: 3, state: 16, doing: 18, bar: 25, took: 7} // of what often changes the usual
	for _, r := range rows {
		w.name = max(w.name, utf8.RuneCountInString(r.Name))
		w.model = min(max(w.model, utf8.RuneCountInString(r.Model)), 26)
		w.bmc = max(w.bmc, utf8.RuneCountInString(r.BMC))
		w.state = max(w.state, 2+utf8.RuneCountInString(r.State))
		w.doing = min(max(w.doing, utf8.RuneCountInString(r.Doing)), 26)
	}
	return w
}

// fit makes the columns smaller, the least needed first, and takes out those of
// which nothing useful would be left, until all of them fit into a width.
func (w widths) fit(width int) widths {
	for _, c := range []struct {
		column *int
		least  int // 0: it may go
		useful int
	}{{&w.model, 0, 10}, {&w.bar, 15, 15}, {&w.doing, 18, 18}, {&w.bmc, 0, 7}, {&w.bar, 0, 10}, {&w.took, 0, 7}, {&w.doing, 0, 10}} {
		*c.column = max(*c.column-max(0, w.total()-width), c.least)
		if *c.column < c.useful {
			*c.column = c.least
		}
	}
	return w
}

func (w widths) total() (n int) {
	for _, c := range []int{w.name, w.model, w.bmc, w.state, w.doing, w.bar, w.took} {
		if c > 0 {
			n += 2 + c
		}
	}
	return n
}

// pad makes text n columns wide.
func pad(text string, n int) string {
	text = clip(text, n)
	return text + strings.Repeat(" ", n-utf8.RuneCountInString(text))
}

// demoTable draws the machines on lines of a terminal of the given width, no
// more than limit of them: those that go somewhere come first then.
func demoTable(l look, rows []demoRow, width, limit int) []string {
	w := measure(rows).fit(width)
	head := w.line(pad("MACHINE", w.name), pad("MODEL", w.model), pad("BMC", w.bmc), pad("  STATE", w.state), pad("STEP", w.doing),
		pad("PROGRESS", w.bar), "   TIME")
	lines := []string{l.paint(dim, head)}
	shown, more := chosen(rows, limit-1)
	for _, r := range shown {
		mark, colour := sign(r.State)
		lines = append(lines, w.line(pad(r.Name, w.name), l.paint(dim, pad(r.Model, w.model)), pad(r.BMC, w.bmc),
			l.paint(colour, mark)+" "+l.paint(colour, pad(r.State, w.state-2)), pad(r.Doing, w.doing),
			demoBar(l, r.Share, colour, w.bar), fmt.Sprintf("%7s", tookText(r.Took))))
	}
	if more > 0 {
		lines = append(lines, l.paint(dim, fmt.Sprintf("  … and %d more", more)))
	}
	return lines
}

// line puts cells side by side, without those of columns that are not there.
func (w widths) line(cells ...string) string {
	var b strings.Builder
	for i, c := range []int{w.name, w.model, w.bmc, w.state, w.doing, w.bar, w.took} {
		if c > 0 {
			b.WriteString("  " + cells[i])
		}
	}
	return b.String()
}

// chosen are the rows for which there is room.
func chosen(rows []demoRow, room int) (shown []demoRow, more int) {
	if len(rows) <= room {
		return rows, 0
	}
	room = max(1, room-1)
	for _, going := range []bool{true, false} {
		for _, r := range rows {
			if (r.Share >= 0) == going && len(shown) < room {
				shown = append(shown, r)
			}
		}
	}
	return shown, len(rows) - len(shown)
}

func tookText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
