package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 12 * time.Millisecond: "12 ms", 1500 * time.Millisecond: "1.5 s", 42 * time.Second: "42 s",
		150 * time.Second: "2 min 30 s", 61 * time.Minute: "1 h 1 min", 49 * time.Hour: "2 d 1 h",
	} {
		if got := took(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	stamp := now.Local().Add(-90 * time.Second).Format(time.DateTime)
	later := now.Local().Add(time.Hour).Format(time.DateTime)
	for in, want := range map[any]string{
		"2026-01-02T03:02:35Z":             stamp + " (1 min 30 s ago)",
		"2026-01-02T03:02:35.000000+00:00": stamp + " (1 min 30 s ago)",
		"2026-01-02T04:04:05Z":             later + " (in 1 h 0 min)",
		"yesterday":                        "yesterday",
		nil:                                "-",
	} {
		if got := ago(in, now); got != want {
			t.Errorf("%v: got %s, want %s", in, got, want)
		}
	}
}

func TestClipAndCount(t *testing.T) {
	for in, want := range map[string]string{"": "", "grün": "grün", "abcdef": "abc…", "ab  ef": "ab…"} {
		if got := clip(in, 4); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 problems", 1: "1 problem", 2: "2 problems"} {
		if got := count(n, "problem"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestCell(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		v    any
		want string
	}{
		{nil, "-"},
		{"", "-"},
		{true, "true"},
		{float64(1 << 40), "1099511627776"},
		{0.5, "0.5"},
		{[]any{"a", "b\x1b"}, "a, b�"},
		{map[string]any{"a": 1.0}, `{"a":1}`},
		{"2026-01-02T03:04:05.123456+00:00", at.Local().Format(time.DateTime)},
		{"2026-01-02 or so, at least twenty", "2026-01-02 or so, at least twenty"},
	} {
		if got := cell(tt.v); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.v, got, tt.want)
		}
	}
}

func TestTables(t *testing.T) {
	obj := map[string]any{
		"zeta": "z", "name": "n1", "empty": "", "none": nil, "list": []any{}, "bag": map[string]any{},
		"deep": map[string]any{"b": map[string]any{"c": true}, "a": nil}, "size": 2.5e9, "count": 3.0,
	}
	short := "name      n1\ncount     3\ndeep.b.c  true\nsize      2.5 GB\nzeta      z\n"
	all := "name      n1\nbag       -\ncount     3\ndeep.a    -\ndeep.b.c  true\nempty     -\nlist      -\nnone      -\nsize      2.5 GB\nzeta      z\n"
	for every, want := range map[bool]string{false: short, true: all} {
		var b strings.Builder
		if err := printTable(&b, obj, []string{"name", "nosuch"}, every); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, b.String()); d != "" {
			t.Errorf("all %v:\n%s", every, d)
		}
	}
}

func TestListsCutWhatIsLong(t *testing.T) {
	long := strings.Repeat("word ", 30)
	if got := listText("last_error", long); len([]rune(got)) > clipped || !strings.HasSuffix(got, "…") {
		t.Errorf("got %q", got)
	}
	if got := listText("name", long); got != long {
		t.Errorf("a name is cut: %q", got)
	}
	if got := listText("sha256", strings.Repeat("0", 64)); got != "000000000000…" {
		t.Errorf("got %q", got)
	}
}

// YAML has the keys and values of JSON.
func TestYAML(t *testing.T) {
	v := struct {
		LongName string         `json:"long_name"`
		Bag      map[string]any `json:"bag"`
		Gone     string         `json:"gone,omitempty"`
	}{"x", map[string]any{"m": 3.0, "f": 0.5, "l": []any{1.0}}, ""}
	var b strings.Builder
	if err := writeYAML(&b, v); err != nil {
		t.Fatal(err)
	}
	want := "bag:\n  f: 0.5\n  l:\n  - 1\n  m: 3\nlong_name: x\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestExplanation(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Local().Format(time.DateTime) }
	e := map[string]any{
		"state": "deploy wait", "since": "2026-01-02T03:04:00Z", "doing": "deploy is at step await-agent",
		"waiting_for": "the node", "deadline": "2026-01-02T03:34:05Z", "last_error": "", "next": []any{"watch it: bessemer node trace n1 --follow"},
	}
	want := "n1 is deploy wait since " + at(-5*time.Second) + " (5.0 s ago)\ndeploy is at step await-agent\nwaits for: the node\n" +
		"gives up: " + at(30*time.Minute) + " (in 30 min 0 s)\n→ watch it: bessemer node trace n1 --follow\n"
	if d := cmp.Diff(want, explanation("n1", e, now)); d != "" {
		t.Error(d)
	}
}

func TestStatusLines(t *testing.T) {
	got := statusLines(map[string]any{
		"version": "1", "uptime": 90.0, "listeners": []any{map[string]any{"name": "api", "address": "http://x"}},
		"counts": map[string]any{"nodes": 2.0, "event_streams": 1.0}, "memory": map[string]any{"heap": 1.0, "system": 2.0},
	})
	for _, k := range []string{"event_streams", "counts"} {
		if _, ok := got[k]; ok {
			t.Errorf("%s is shown", k)
		}
	}
	if got["uptime"] != "1 min 30 s" || got["nodes"] != 2.0 {
		t.Errorf("got %v", got)
	}
	if d := cmp.Diff(map[string]any{"api": "http://x"}, got["listeners"]); d != "" {
		t.Error(d)
	}
}

func TestRunTook(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, r := range map[string]map[string]any{
		"5.0 s": {"started": "2026-01-02T03:04:00Z"},
		"2.0 s": {"started": "2026-01-02T03:04:00Z", "ended": "2026-01-02T03:04:02Z"},
		"":      {},
	} {
		if got := runTook(r, now); got != want {
			t.Errorf("%v: got %q, want %q", r, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	want := "  one two\n  three\n  afarlongerword\n"
	if got := wrap("one  two three\nafarlongerword", "  ", 10); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
