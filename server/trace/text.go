package trace

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"bessemer/store"
)

// writeText writes a line a message: when, counted from the first; from whom
// to whom; what; how long the answer took; what went wrong.
func writeText(o *out, ms []store.Message) {
	ls := lines(ms)
	width := 0
	for _, p := range participants(ls) {
		width = max(width, utf8.RuneCountInString(clean(string(p))))
	}
	for _, l := range ls {
		o.printf("%s  %s\n", offset(l.m.Time.Sub(ls[0].m.Time)), l.plain(width))
	}
}

// Line is one message as the text format shows it, without the time: for who
// follows messages as they come, when it is not known yet whether a request
// will be answered.
func Line(m store.Message) string {
	const width = len(store.Boot) // the longest of the participants
	return newLine(m).plain(width)
}

func offset(d time.Duration) string {
	sign := "+"
	if d < 0 { // the clock was set back
		sign, d = "-", -d
	}
	return fmt.Sprintf("%11s", fmt.Sprintf("%s%.3fs", sign, d.Seconds()))
}

// plain is a line as a terminal shows it.
func (l line) plain(width int) string {
	switch l.kind {
	case divider:
		return "──── " + l.label + " ────"
	case note:
		return pad("", width) + " · " + l.text()
	}
	text := l.label
	if text == "" {
		text = clean(l.m.Label)
	}
	if l.attempt > 1 {
		text += fmt.Sprintf(" (attempt %d)", l.attempt)
	}
	if l.reply {
		text += ": " + outcomeText(l)
	} else if l.failed {
		text += ": FAILED: " + l.errText
	}
	if l.dur > 0 {
		text += " (" + human(l.dur) + ")"
	}
	if l.pending {
		text += " (no answer)"
	}
	sign := "→"
	if l.reply {
		sign = "⇢"
	}
	return strings.TrimRight(pad(clean(string(l.from)), width)+" "+sign+" "+pad(clean(string(l.to)), width)+"  "+text, " ")
}

func outcomeText(l line) string {
	if l.failed {
		return strings.TrimSuffix("FAILED: "+l.errText, ": ")
	}
	return "ok"
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// writeJSON writes the messages as they are stored, as an array.
func writeJSON(o *out, ms []store.Message) {
	if ms == nil {
		ms = []store.Message{}
	}
	b, err := json.MarshalIndent(ms, "", "  ")
	if err != nil {
		o.err = fmt.Errorf("export messages: %w", err)
		return
	}
	o.printf("%s\n", b)
}
