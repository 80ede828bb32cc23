// Package trace shows recorded messages as diagrams in other tools' languages
// and as text, and compares them with the sequence that the product was asked
// for (seed 000).
//
// Labels and errors carry text that machines and clients chose. Each language
// gets them escaped so that they cannot end a line, open a directive or draw
// an arrow of their own.
package trace

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"bessemer/store"
)

// A FormatError is returned for a format that there is not.
type FormatError struct{ Format string }

func (e *FormatError) Error() string {
	return fmt.Sprintf("there is no format %q: use one of %s", e.Format, strings.Join(Formats(), ", "))
}

var formats = []struct {
	name  string
	write func(*out, []store.Message)
}{
	{"text", writeText},
	{"seqdiag", writeSeqdiag},
	{"plantuml", writePlantUML},
	{"mermaid", writeMermaid},
	{"wsd", writeWSD},
	{"json", writeJSON},
}

// Formats are the names of the formats that Export writes.
func Formats() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// Export writes messages, which must be in order, in the named format: text
// for a terminal, one line a message; seqdiag, plantuml, mermaid and wsd
// (websequencediagrams) as diagrams with repeats folded; json as they are
// stored. An unknown format is a *FormatError.
func Export(w io.Writer, format string, ms []store.Message) error {
	for _, f := range formats {
		if f.name == format {
			o := &out{w: w}
			f.write(o, ms)
			return o.err
		}
	}
	return &FormatError{format}
}

// An out writes until the first error.
type out struct {
	w   io.Writer
	err error
}

func (o *out) printf(format string, args ...any) {
	if o.err == nil {
		_, o.err = fmt.Fprintf(o.w, format, args...)
	}
}

// columns are the participants in the order of their columns, seed 000's.
var columns = []store.Participant{
	store.ClientP, store.API, store.Conductor, store.DHCP, store.HTTPStore, store.Boot, store.BMC, store.NodeP,
}

// participants returns those that take part, in column order; strangers follow
// in order of appearance.
func participants(ls []line) []store.Participant {
	seen := map[store.Participant]bool{}
	var strangers []store.Participant
	for _, l := range ls {
		for _, p := range []store.Participant{l.from, l.to} {
			if l.kind == arrow && !seen[p] {
				seen[p] = true
				if !slices.Contains(columns, p) {
					strangers = append(strangers, p)
				}
			}
		}
	}
	known := slices.DeleteFunc(slices.Clone(columns), func(p store.Participant) bool { return !seen[p] })
	return append(known, strangers...)
}

// aliases gives each participant a name that needs no quotes.
func aliases(ps []store.Participant) map[store.Participant]string {
	names := map[store.Participant]string{}
	for i, p := range ps {
		names[p] = fmt.Sprintf("P%d", i+1)
	}
	return names
}

// title names the trace, if the messages have one in common.
func title(ms []store.Message) string {
	if len(ms) == 0 || ms[0].Trace == "" {
		return ""
	}
	for _, m := range ms {
		if m.Trace != ms[0].Trace {
			return ""
		}
	}
	return "Trace " + clean(ms[0].Trace)
}
