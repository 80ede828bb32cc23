package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// cell is a value as a table shows it: printable, on one line, times in local
// form.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		if t, ok := timeOf(v); ok {
			return t.Local().Format(time.DateTime)
		}
		return printable(v)
	case float64:
		if v == float64(int64(v)) {
			return fmt.Sprint(int64(v))
		}
		return fmt.Sprint(v)
	case bool:
		return fmt.Sprint(v)
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = cell(x)
		}
		return printable(strings.Join(parts, ", "))
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return printable(string(raw))
}

// timeOf reads the form in which the API gives times.
func timeOf(s string) (time.Time, bool) {
	if len(s) < len("2006-01-02T15:04:05Z") || s[4] != '-' || s[10] != 'T' {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t, err == nil
}

// ago is a time of the API with how long ago it was.
func ago(v any, now time.Time) string {
	s, _ := v.(string)
	t, ok := timeOf(s)
	if !ok {
		return cell(v)
	}
	if d := now.Sub(t); d >= 0 {
		return cell(v) + " (" + took(d) + " ago)"
	}
	return cell(v) + " (in " + took(t.Sub(now)) + ")"
}

// took is a duration in two units at most.
func took(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour)
}

// printable replaces control characters: names and messages come from
// machines, and a terminal would obey them.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069) {
			return '�'
		}
		return r
	}, s)
}

// clip cuts text to n characters, the last of which then says so.
func clip(s string, n int) string {
	if n <= 0 {
		return ""
	}
	if r := []rune(s); len(r) > n {
		return strings.TrimRight(string(r[:n-1]), " ") + "…"
	}
	return s
}

// count is a number with its noun: "1 problem", "2 problems".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func bytesText(n float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB", "TB"} {
		if n < 1000 || unit == "TB" {
			if unit == "B" || n >= 100 {
				return fmt.Sprintf("%.0f %s", n, unit)
			}
			return fmt.Sprintf("%.1f %s", n, unit)
		}
		n /= 1000
	}
	return ""
}

// sizes are the keys whose numbers are bytes.
var sizes = []string{"size", "virtual_size", "heap", "system"}

// clipped is how long the longest texts in a list may be.
const clipped = 48

// valueText is the value of a key as a table shows it.
func valueText(key string, v any) string {
	leaf := key[strings.LastIndex(key, ".")+1:]
	if n, ok := v.(float64); ok && slices.Contains(sizes, leaf) {
		return bytesText(n)
	}
	return cell(v)
}

// listText is the same in a list, where room is short.
func listText(key string, v any) string {
	s := valueText(key, v)
	switch key {
	case "sha256":
		return clip(s, 13)
	case "last_error", "error", "reason", "last_what":
		return clip(s, clipped)
	}
	return s
}
