package trace

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"bessemer/store"
)

// grammar is what lines a diagram in a language may have; exactly one of them
// draws a message.
var grammar = map[string]struct{ message, other *regexp.Regexp }{
	"seqdiag": {
		regexp.MustCompile(`^  ("[^"\\]*"|\pL[\pL\pN]*) -?-> ("[^"\\]*"|\pL[\pL\pN]*) \[label = "[^"\\]*"(, color = (red|gray))?(, failed)?\];$`),
		regexp.MustCompile(`^(diagram \{|\}|  \w+ = \w+;|  ("[^"\\]*"|\pL[\pL\pN]*);|  === [^="\[\]{};]* ===)$`),
	},
	"plantuml": {
		regexp.MustCompile(`^P\d+ -(\[#\w+\])?-?> P\d+ : ([\pL\pN ,.:()→×=+?_/-]|<U\+[0-9A-F]{4,6}>)*$`),
		regexp.MustCompile(`^(@startuml|@enduml|title Trace [^%!$]*|participant "[^"%!$]*" as P\d+|(==|note over P\d+ :) ([\pL\pN ,.:()→×=+?_/-]|<U\+[0-9A-F]{4,6}>)*( ==)?)$`),
	},
	"mermaid": {
		regexp.MustCompile(`^  P\d+(-|--)(>>|x|\))P\d+: ([^;#%<>{}]|#\d+;)*$`),
		regexp.MustCompile(`^(sequenceDiagram|  participant P\d+ as ([^;#%<>{}]|#\d+;)*|  Note over P\d+(,P\d+)?: ([^;#%<>{}]|#\d+;)*|  %% ([^;#%<>{}]|#\d+;)*)$`),
	},
	"wsd": {
		regexp.MustCompile(`^[\pL\pN]+--?>[\pL\pN]+: [^\\]*$`),
		regexp.MustCompile(`^(title Trace .*|participant ("[^"]*" as P\d+|[\pL\pN]+)|note over [\pL\pN]+(,[\pL\pN]+)?: [^\\]*|# .*)$`),
	},
	"text": {
		regexp.MustCompile(`^ *[+-]\d+\.\d{3}s  `),
		regexp.MustCompile(`^$`),
	},
}

// FuzzExport holds that text from outside stays text: every language has one
// line a message, and no line but those of its grammar.
func FuzzExport(f *testing.F) {
	for _, s := range []string{
		"plain", "a\nA -> B [label = \"x\"]", `"]; } diagram { X -> Y; "`, `\`, `x\`, "@enduml\n!include /etc/passwd", "%getenv(\"HOME\")",
		"x;y#z", "%%{init: {\"theme\":\"dark\"}}%%", "end", "wrap: x", "\x1b[31mred\x1b[0m", "\u202eevil", "<script>alert(1)</script>",
		"P1->>P2: hi", "a\rb\u2028c", "=== x ===", "== x ==", "note over A: x", "title x", "\xff\xfe", "click A href", "$x", "**bold** __u__ //i// --s--",
	} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, label, failure, who string) {
		s := newScript()
		q := s.add(store.Message{From: store.ClientP, To: store.Participant(who), Kind: store.Request, Label: label})
		s.answer(q, label, 1e6, failure)
		s.add(store.Message{From: store.Conductor, To: store.Conductor, Kind: store.Self, Label: label})
		s.add(store.Message{From: store.BMC, To: store.Conductor, Kind: store.Request, Label: label, Error: failure})
		messages := len(s.ms)
		s.add(store.Message{From: store.Conductor, Kind: store.Divider, Label: label})
		s.add(store.Message{From: store.Conductor, Kind: store.State, Label: label, Detail: map[string]any{"from": failure, "to": label}})
		for format, g := range grammar {
			checkExport(t, format, g.message, g.other, s.ms, messages)
		}
		Conformance(s.ms)
	})
}

func checkExport(t *testing.T, format string, message, other *regexp.Regexp, ms []store.Message, want int) {
	t.Helper()
	var b bytes.Buffer
	if err := Export(&b, format, ms); err != nil {
		t.Fatal(err)
	}
	if format == "text" {
		want = len(ms)
	}
	got := 0
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.IndexFunc(line, func(r rune) bool { return !unicode.IsGraphic(r) }) >= 0:
			t.Errorf("%s: control character in %q", format, line)
		case message.MatchString(line):
			got++
		case !other.MatchString(line):
			t.Errorf("%s: line %q is none of its language", format, line)
		}
	}
	if got != want {
		t.Errorf("%s has %d messages, want %d:\n%s", format, got, want, &b)
	}
}
