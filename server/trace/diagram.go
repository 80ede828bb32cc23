package trace

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"bessemer/store"
)

// writeSeqdiag writes seqdiag's language, as seed 000 is written in.
func writeSeqdiag(o *out, ms []store.Message) {
	ls := drawn(ms)
	o.printf("diagram {\n")
	for _, s := range []string{
		"activation = none", "edge_length = 250", "span_height = 1", "default_note_color = white", "default_fontsize = 14",
	} {
		o.printf("  %s;\n", s)
	}
	for _, p := range participants(ls) {
		o.printf("  %s;\n", seqdiagName(p))
	}
	for _, l := range ls {
		if l.kind != arrow {
			o.printf("  === %s ===\n", seqdiagDivider(l.text()))
			continue
		}
		sign, more := "->", ""
		if l.reply {
			sign = "-->"
		}
		if l.failed {
			more = ", color = red, failed"
		} else if l.pending {
			more = ", color = gray"
		}
		o.printf("  %s %s %s [label = %s%s];\n", seqdiagName(l.from), sign, seqdiagName(l.to), seqdiagText(l.text()), more)
	}
	o.printf("}\n")
}

// seqdiagName is a participant, in quotes where the language wants them.
func seqdiagName(p store.Participant) string {
	if plainName(p) {
		return string(p)
	}
	return seqdiagText(string(p))
}

// seqdiagText quotes text. The language cannot write a quote or a backslash
// inside quotes.
func seqdiagText(s string) string {
	return `"` + strings.NewReplacer(`"`, `'`, `\`, `/`).Replace(clean(s)) + `"`
}

// seqdiagDivider is text between === and ===, where nothing is quoted.
func seqdiagDivider(s string) string {
	return strings.Join(strings.Fields(keep(s, " ,.:()→×'/_-", func(rune) string { return " " })), " ")
}

// writePlantUML writes PlantUML's sequence diagrams, as seed 002 is.
func writePlantUML(o *out, ms []store.Message) {
	ls := drawn(ms)
	ps := participants(ls)
	names := aliases(ps)
	o.printf("@startuml\n")
	if t := title(ms); t != "" {
		o.printf("title %s\n", plantText(t))
	}
	for _, p := range ps {
		o.printf("participant \"%s\" as %s\n", plantText(string(p)), names[p])
	}
	for _, l := range ls {
		switch {
		case l.kind == divider || len(ps) == 0:
			o.printf("== %s ==\n", plantText(l.text()))
		case l.kind == note:
			o.printf("note over %s : %s\n", names[beside(l, ps)], plantText(l.text()))
		default:
			o.printf("%s %s %s : %s\n", names[l.from], plantArrow(l), names[l.to], plantText(l.text()))
		}
	}
	o.printf("@enduml\n")
}

func plantArrow(l line) string {
	colour := ""
	if l.failed {
		colour = "[#red]"
	} else if l.pending {
		colour = "[#gray]"
	}
	if l.reply {
		return "-" + colour + "->"
	}
	return "-" + colour + ">"
}

// plantText writes everything that could be markup or a preprocessor's call
// (%getenv among them) as its number. Some signs are markup only when doubled.
func plantText(s string) string {
	rs := []rune(clean(s))
	var b strings.Builder
	for i, r := range rs {
		doubled := i > 0 && rs[i-1] == r || i+1 < len(rs) && rs[i+1] == r
		if !strings.ContainsRune("_-/", r) || doubled {
			b.WriteString(keep(string(r), " ,.:()→×=+?", func(r rune) string { return fmt.Sprintf("<U+%04X>", r) }))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// writeMermaid writes Mermaid's sequence diagrams.
func writeMermaid(o *out, ms []store.Message) {
	ls := drawn(ms)
	ps := participants(ls)
	names := aliases(ps)
	o.printf("sequenceDiagram\n")
	for _, p := range ps {
		o.printf("  participant %s as %s\n", names[p], mermaidText(string(p)))
	}
	for _, l := range ls {
		switch {
		case len(ps) == 0:
			o.printf("  %%%% %s\n", mermaidText(l.text()))
		case l.kind == divider:
			o.printf("  Note over %s: %s\n", span(names, ps), mermaidText(l.text()))
		case l.kind == note:
			o.printf("  Note over %s: %s\n", names[beside(l, ps)], mermaidText(l.text()))
		default:
			o.printf("  %s%s%s: %s\n", names[l.from], mermaidArrow(l), names[l.to], mermaidText(l.text()))
		}
	}
}

func mermaidArrow(l line) string {
	switch {
	case l.failed && l.reply:
		return "--x"
	case l.failed:
		return "-x"
	case l.reply:
		return "-->>"
	case l.pending:
		return "-)"
	}
	return "->>"
}

// mermaidText writes all but letters, digits and a few signs as entities, by
// their decimal number between # and ;. A colon is one of the few but after
// "wrap", which the language has for itself at the start of a text.
func mermaidText(s string) string {
	s = clean(s)
	also := " ,.()→×/_'-?=:"
	if first := strings.ToLower(s); strings.HasPrefix(first, "wrap") || strings.HasPrefix(first, "nowrap") {
		also = strings.TrimSuffix(also, ":")
	}
	return keep(s, also, func(r rune) string { return fmt.Sprintf("#%d;", r) })
}

// writeWSD writes the language of websequencediagrams.com, as seed 001 is.
func writeWSD(o *out, ms []store.Message) {
	ls := drawn(ms)
	ps := participants(ls)
	if t := title(ms); t != "" {
		o.printf("title %s\n", wsdText(t))
	}
	names := map[store.Participant]string{}
	for i, p := range ps {
		names[p] = string(p)
		if !plainName(p) {
			names[p] = fmt.Sprintf("P%d", i+1)
			o.printf("participant \"%s\" as %s\n", strings.ReplaceAll(wsdText(string(p)), `"`, `'`), names[p])
			continue
		}
		o.printf("participant %s\n", names[p])
	}
	for _, l := range ls {
		switch {
		case len(ps) == 0:
			o.printf("# %s\n", wsdText(l.text()))
		case l.kind == divider:
			o.printf("note over %s: %s\n", span(names, ps), wsdText(l.text()))
		case l.kind == note:
			o.printf("note over %s: %s\n", names[beside(l, ps)], wsdText(l.text()))
		case l.reply:
			o.printf("%s-->%s: %s\n", names[l.from], names[l.to], wsdText(l.text()))
		default:
			o.printf("%s->%s: %s\n", names[l.from], names[l.to], wsdText(l.text()))
		}
	}
}

// wsdText is text up to the end of a line; a backslash would begin a line
// break.
func wsdText(s string) string { return strings.ReplaceAll(clean(s), `\`, "/") }

// plainName reports whether a participant needs no quotes: one of ours, of
// letters alone. A stranger could be called "note" or "end".
func plainName(p store.Participant) bool {
	return slices.Contains(columns, p) && strings.IndexFunc(string(p), func(r rune) bool { return !unicode.IsLetter(r) }) < 0
}

// span names the participants from the first column to the last.
func span(names map[store.Participant]string, ps []store.Participant) string {
	if len(ps) == 1 {
		return names[ps[0]]
	}
	return names[ps[0]] + "," + names[ps[len(ps)-1]]
}

// beside is the participant that a note stands at: the one that it is from, if
// it has a column, else the first.
func beside(l line, ps []store.Participant) store.Participant {
	for _, p := range ps {
		if p == l.from {
			return p
		}
	}
	return ps[0]
}

// keep passes letters, digits and the runes in also; the others go through
// escape.
func keep(s, also string, escape func(rune) string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(also, r) {
			b.WriteRune(r)
		} else {
			b.WriteString(escape(r))
		}
	}
	return b.String()
}
