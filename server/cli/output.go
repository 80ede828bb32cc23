package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
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
			cells[i] = listText(col.key, dig(row, col.key))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// printOne shows one object, a line per value, those of first before the
// others. As a table it leaves out what is empty, unless the command has --all
// and that is set, and the keys in skip.
func printOne(c *cli.Context, obj map[string]any, first, skip []string) error {
	if done, err := printData(c, obj); done {
		return err
	}
	shown := maps.Clone(obj)
	maps.DeleteFunc(shown, func(k string, _ any) bool { return slices.Contains(skip, k) })
	return printTable(c.App.Writer, shown, first, c.Bool("all"))
}

// printTable writes a line per value. Values inside have the keys on the way
// to them, with dots.
func printTable(out io.Writer, obj map[string]any, first []string, all bool) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	rank := func(k string) int {
		if i := slices.Index(first, k); i >= 0 {
			return i
		}
		return len(first)
	}
	keys := sortedKeys(obj)
	slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
	for _, k := range keys {
		printValue(w, k, obj[k], all)
	}
	return w.Flush()
}

func printValue(w io.Writer, key string, v any, all bool) {
	if empty(v) {
		if all {
			fmt.Fprintf(w, "%s\t-\n", printable(key))
		}
		return
	}
	if m, ok := v.(map[string]any); ok {
		for _, k := range sortedKeys(m) {
			printValue(w, key+"."+k, m[k], all)
		}
		return
	}
	fmt.Fprintf(w, "%s\t%s\n", printable(key), valueText(key, v))
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// printData writes v as JSON or YAML when that is asked for.
func printData(c *cli.Context, v any) (done bool, err error) {
	switch c.String("output") {
	case "json":
		return true, writeJSON(c.App.Writer, v)
	case "yaml":
		return true, writeYAML(c.App.Writer, v)
	}
	return false, nil
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// writeYAML writes the same keys and values as writeJSON.
func writeYAML(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var x any
	if err := json.Unmarshal(raw, &x); err != nil {
		return err
	}
	if raw, err = yaml.Marshal(whole(x)); err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}

// whole makes whole numbers of those that JSON has read as fractions.
func whole(v any) any {
	switch v := v.(type) {
	case float64:
		if n := int64(v); float64(n) == v {
			return n
		}
	case []any:
		for i, x := range v {
			v[i] = whole(x)
		}
	case map[string]any:
		for k, x := range v {
			v[k] = whole(x)
		}
	}
	return v
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

// say confirms what was done, for people: programs ask for JSON or YAML and
// read the exit code.
func say(c *cli.Context, format string, args ...any) {
	fmt.Fprintf(c.App.ErrWriter, format+"\n", args...)
}
