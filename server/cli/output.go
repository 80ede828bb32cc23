package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"
)

// A column of a table: its title and the key of the value, with dots for
// values inside.
type column struct{ title, key string }

// columns makes columns whose titles are the keys: "name", "power_state=Power".
func columns(keys ...string) []column {
	out := make([]column, len(keys))
	for i, k := range keys {
		key, title, ok := strings.Cut(k, "=")
		if !ok {
			title = strings.ReplaceAll(key, "_", " ")
		}
		out[i] = column{strings.ToUpper(title), key}
	}
	return out
}

// printList shows rows as the output flag says.
func printList(c *cli.Context, rows []map[string]any, cols []column) error {
	if done, err := printData(c, rows); done {
		return err
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 4, 2, ' ', 0)
	titles := make([]string, len(cols))
	for i, col := range cols {
		titles[i] = col.title
	}
	fmt.Fprintln(w, strings.Join(titles, "\t"))
	for _, row := range rows {
		cells := make([]string, len(cols))
		for i, col := range cols {
			cells[i] = cell(dig(row, col.key))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// printOne shows one object, a line per key.
func printOne(c *cli.Context, obj map[string]any, skip ...string) error {
	if done, err := printData(c, obj); done {
		return err
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 4, 2, ' ', 0)
	keys := make([]string, 0, len(obj))
	for k := range obj {
		if !slices.Contains(skip, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(w, "%s\t%s\n", k, cell(obj[k]))
	}
	return w.Flush()
}

// printData writes v as JSON or YAML when that is asked for.
func printData(c *cli.Context, v any) (done bool, err error) {
	switch c.String("output") {
	case "json":
		return true, writeJSON(c.App.Writer, v)
	case "yaml":
		raw, err := yaml.Marshal(v)
		if err != nil {
			return true, err
		}
		_, err = c.App.Writer.Write(raw)
		return true, err
	}
	return false, nil
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func dig(row map[string]any, key string) any {
	head, rest, more := strings.Cut(key, ".")
	v := row[head]
	if !more {
		return v
	}
	m, _ := v.(map[string]any)
	return dig(m, rest)
}

// cell is a value as a table shows it: printable, on one line.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
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
		return strings.Join(parts, ", ")
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return printable(string(raw))
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

// printBody shows the one JSON object of an answer.
func printBody(c *cli.Context, r io.Reader) error {
	var obj map[string]any
	if err := json.NewDecoder(r).Decode(&obj); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return printOne(c, obj)
}
