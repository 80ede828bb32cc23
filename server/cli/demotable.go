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

const barWidth = 20

func demoBar(l look, share float64, colour string) string {
	if share < 0 {
		return strings.Repeat(" ", barWidth+5)
	}
	full := int(share*barWidth + 0.5)
	return l.paint(colour, strings.Repeat("█", full)) + l.paint(dim, strings.Repeat("░", barWidth-full)) + fmt.Sprintf(" %3.0f%%", 100*share)
}

// widths are those of the table's columns, as wide as what is in them.
type widths struct{ name, model, bmc, state, doing int }

func measure(rows []demoRow) widths {
	w := widths{7, 5, 3, 14, 18} // of what often changes the usual
	for _, r := range rows {
		w.name = max(w.name, utf8.RuneCountInString(r.Name))
		w.model = min(max(w.model, utf8.RuneCountInString(r.Model)), 26)
		w.bmc = max(w.bmc, utf8.RuneCountInString(r.BMC))
		w.state = max(w.state, utf8.RuneCountInString(r.State))
		w.doing = min(max(w.doing, utf8.RuneCountInString(r.Doing)), 26)
	}
	return w
}

// pad makes text n columns wide.
func pad(text string, n int) string {
	text = clip(text, n)
	return text + strings.Repeat(" ", n-utf8.RuneCountInString(text))
}

// demoTable draws the machines on lines of a terminal of the given width, no
// more than limit of them: those that go somewhere come first then.
func demoTable(l look, rows []demoRow, width, limit int) []string {
	w := measure(rows)
	if room := width - (w.name + w.bmc + w.state + w.doing + barWidth + 5 + 8 + 18); room < w.model {
		w.model = max(0, room)
	}
	head := fmt.Sprintf("  %s  %s  %s    %s  %s  %s  %s", pad("MACHINE", w.name), pad("MODEL", w.model), pad("BMC", w.bmc),
		pad("STATE", w.state), pad("STEP", w.doing), pad("PROGRESS", barWidth+5), "   TIME")
	lines := []string{l.paint(dim, head)}
	shown, more := chosen(rows, limit-1)
	for _, r := range shown {
		mark, colour := sign(r.State)
		lines = append(lines, fmt.Sprintf("  %s  %s  %s  %s %s  %s  %s  %7s",
			pad(r.Name, w.name), l.paint(dim, pad(r.Model, w.model)), pad(r.BMC, w.bmc),
			l.paint(colour, mark), l.paint(colour, pad(r.State, w.state)), pad(r.Doing, w.doing), demoBar(l, r.Share, colour), tookText(r.Took)))
	}
	if more > 0 {
		lines = append(lines, l.paint(dim, fmt.Sprintf("  … and %d more", more)))
	}
	return lines
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
