package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"bessemer/store"
)

// A lineKind says how a line is drawn.
type lineKind int

const (
	arrow   lineKind = iota
	note             // beside a participant
	divider          // across all
)

// A line is what one message, or several that are alike, look like in a
// diagram.
type line struct {
	kind     lineKind
	from, to store.Participant
	label    string
	reply    bool
	failed   bool
	pending  bool // a request that nobody has answered
	errText  string
	dur      time.Duration // of a reply: since its request
	attempt  int
	times    int           // how many messages it stands for
	every    time.Duration // of several: from one to the next, on average

	m store.Message // the first of them
}

// lines turns messages into lines, one for one.
func lines(ms []store.Message) []line {
	ms = slices.Clone(ms)
	slices.SortStableFunc(ms, func(a, b store.Message) int { return cmp.Compare(a.Seq, b.Seq) })
	requests, answered := map[uint64]store.Message{}, map[uint64]bool{}
	for _, m := range ms {
		requests[m.Seq] = m
		if m.ReplyTo != 0 {
			answered[m.ReplyTo] = true
		}
	}
	var ls []line
	for _, m := range ms {
		l := newLine(m)
		l.pending = m.Kind == store.Request && !answered[m.Seq]
		if q, ok := requests[m.ReplyTo]; ok && l.reply && q.Label == m.Label {
			l.label = "" // the arrow it answers says it
		}
		ls = append(ls, l)
	}
	return ls
}

func newLine(m store.Message) line {
	l := line{
		kind: arrow, from: m.From, to: m.To, label: clean(m.Label), m: m, times: 1,
		reply: m.Kind == store.Reply, dur: m.Dur, attempt: m.Attempt,
		failed: m.Outcome == store.Failed || m.Error != "", errText: clean(m.Error),
	}
	switch m.Kind {
	case store.Divider:
		l.kind = divider
	case store.State, store.StepKind:
		l.kind = note
		l.label = noteText(m)
	}
	return l
}

// noteText says what a change of state or a step is about.
func noteText(m store.Message) string {
	text := clean(m.Label)
	from, okFrom := m.Detail["from"].(string)
	to, okTo := m.Detail["to"].(string)
	switch {
	case m.Kind == store.State && okFrom && okTo:
		text += ": " + clean(cmp.Or(from, "none")) + " → " + clean(cmp.Or(to, "none"))
	case m.Kind == store.State && okTo:
		text += ": " + clean(to)
	case m.Kind == store.StepKind && m.Step != "":
		text += ": " + clean(m.Step)
	}
	return text
}

// clean makes text from outside one line of visible characters. Control and
// format characters (escape sequences, bidirectional overrides) are dropped.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r):
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "..."
	}
	return s
}

// text is the whole label of a line in a diagram.
func (l line) text() string {
	parts := []string{}
	if l.label != "" {
		parts = append(parts, l.label)
	}
	if l.attempt > 1 {
		parts = append(parts, fmt.Sprintf("(attempt %d)", l.attempt))
	}
	if l.times > 1 {
		parts = append(parts, fmt.Sprintf("×%d", l.times))
		if l.every > 0 {
			parts = append(parts, "every "+human(l.every))
		}
	}
	switch {
	case l.failed:
		parts = append(parts, strings.TrimSuffix("failed: "+l.errText, ": "))
	case l.pending:
		parts = append(parts, "(no answer)")
	case l.reply && l.label == "":
		parts = append(parts, "ok")
	}
	if l.reply && l.dur > 0 {
		parts = append(parts, "("+human(l.dur)+")")
	}
	return strings.Join(parts, " ")
}

// human writes a duration as people say it, to two digits or so.
func human(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}
