package disk

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"bessemer/agent/wire"
)

// A hint is one root device hint, parsed.
type hint struct {
	name, text string // as given, for people
	op         string
	values     []string // normalized
}

// strings of a disk that hints may be about.
var fields = map[string]func(wire.Disk) string{
	"model":                func(d wire.Disk) string { return d.Model },
	"vendor":               func(d wire.Disk) string { return d.Vendor },
	"serial":               func(d wire.Disk) string { return d.Serial },
	"wwn":                  func(d wire.Disk) string { return d.WWN },
	"wwn_with_extension":   func(d wire.Disk) string { return d.WWNWithExtension },
	"wwn_vendor_extension": func(d wire.Disk) string { return d.WWNVendorExtension },
	"hctl":                 func(d wire.Disk) string { return d.HCTL },
	"by_path":              func(d wire.Disk) string { return d.ByPath },
	"name":                 func(d wire.Disk) string { return d.Name },
	"tran":                 func(d wire.Disk) string { return d.Transport },
}

// operators are those of Ironic's hints (K-16); longer ones come first, so that
// none is taken for the beginning of another.
var operators = []string{
	"<range-in>", "<all-in>", "<in>", "<or>",
	"s==", "s!=", "s>=", "s<=", "s>", "s<", "==", "!=", ">=", "<=", "=", ">", "<",
}

// parseHints parses root device hints; nil values are as if not given.
func parseHints(hints map[string]any) ([]hint, error) {
	var out []hint
	for _, name := range slices.Sorted(maps.Keys(hints)) {
		if hints[name] == nil {
			continue
		}
		h, err := parseHint(name, hints[name])
		if err != nil {
			return nil, fmt.Errorf("root device hint %s: %w", name, err)
		}
		out = append(out, h)
	}
	return out, nil
}

func parseHint(name string, v any) (hint, error) {
	text := strings.TrimSpace(fmt.Sprint(v))
	h := hint{name: name, text: text}
	op, rest := cutOperator(text)
	switch {
	case name == "rotational":
		b, err := parseBool(text)
		if err != nil {
			return h, err
		}
		h.op, h.values = "s==", []string{strconv.FormatBool(b)}
		return h, nil
	case name != "size" && fields[name] == nil:
		return h, fmt.Errorf("there is no such hint; known are size, rotational, %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	case text == "":
		return h, fmt.Errorf("is empty")
	case op == "" && name == "size":
		op = "=="
	case op == "":
		op = "s=="
	}
	return h, h.setValues(op, rest)
}

func cutOperator(s string) (op, rest string) {
	for _, op := range operators {
		if rest, ok := strings.CutPrefix(s, op); ok {
			return op, strings.TrimSpace(rest)
		}
	}
	return "", s
}

func (h *hint) setValues(op, rest string) error {
	h.op = op
	switch op {
	case "<or>":
		h.values = split(rest, "<or>")
	case "<all-in>":
		h.values = strings.Fields(rest)
	case "<range-in>":
		return h.setRange(rest)
	default:
		h.values = []string{rest}
	}
	for i, v := range h.values {
		h.values[i] = normal(unquote(v))
		if h.values[i] == "" {
			return fmt.Errorf("%q has no value to compare with", h.text)
		}
		if h.numeric() {
			if _, err := strconv.ParseFloat(v, 64); err != nil {
				return fmt.Errorf("%q is not a number", v)
			}
		}
	}
	if len(h.values) == 0 {
		return fmt.Errorf("%q has no value to compare with", h.text)
	}
	return nil
}

// numeric reports whether values are compared as numbers: sizes are, unless
// the operator is one for strings.
func (h *hint) numeric() bool {
	switch h.op {
	case "=", "==", "!=", ">=", "<=", ">", "<", "<range-in>":
		return true
	case "<or>":
		return h.name == "size"
	}
	return false
}

// setRange parses "[ 10 20 )": square brackets include the end, round ones not.
func (h *hint) setRange(s string) error {
	open, shut := strings.IndexAny(s, "[("), strings.LastIndexAny(s, "])")
	if open != 0 || shut != len(s)-1 || shut < 1 {
		return fmt.Errorf("%q is not a range like [ 10 20 ]", h.text)
	}
	ends := strings.Fields(strings.ReplaceAll(s[1:shut], ",", " "))
	if len(ends) != 2 {
		return fmt.Errorf("%q does not have two ends", h.text)
	}
	for _, e := range ends {
		if _, err := strconv.ParseFloat(e, 64); err != nil {
			return fmt.Errorf("%q is not a number", e)
		}
	}
	h.values = []string{s[:1], ends[0], ends[1], s[shut:]}
	return nil
}

// refuse says why a disk does not match, or "".
func (h *hint) refuse(d wire.Disk) string {
	var is string
	var ok bool
	switch {
	case h.name == "size":
		is = fmt.Sprintf("%.2f GiB", float64(d.Size)/gib)
		ok = h.matchNumber(float64(d.Size)/gib, float64(d.Size/gib))
	case h.name == "rotational":
		is = strconv.FormatBool(d.Rotational)
		ok = is == h.values[0]
	default:
		is = fields[h.name](d)
		ok = is != "" && h.matchText(normal(is))
	}
	if ok {
		return ""
	}
	if is == "" {
		is = "unknown"
	}
	return fmt.Sprintf("%s is %s, the hint asks for %s", h.name, is, h.text)
}

// matchNumber compares sizes in GiB. Equality is with whole GiB, since disks
// are never exactly as large as people say.
func (h *hint) matchNumber(exact, whole float64) bool {
	n := make([]float64, len(h.values))
	for i, v := range h.values {
		n[i], _ = strconv.ParseFloat(v, 64)
	}
	equal := func(want float64) bool { return whole == want || exact == want }
	switch h.op {
	case "=", ">=": // Ironic's "=" has always meant at least
		return exact >= n[0]
	case "==":
		return equal(n[0])
	case "!=":
		return !equal(n[0])
	case "<=":
		return exact <= n[0] || whole == n[0]
	case ">":
		return exact > n[0]
	case "<":
		return exact < n[0]
	case "<or>":
		return slices.ContainsFunc(n, equal)
	case "<range-in>":
		return (n[1] < exact || h.values[0] == "[" && n[1] == exact) && (exact < n[2] || h.values[3] == "]" && (n[2] == exact || n[2] == whole))
	}
	return h.matchText(strconv.FormatFloat(whole, 'f', -1, 64))
}

func (h *hint) matchText(is string) bool {
	want := h.values[0]
	switch h.op {
	case "s==":
		return is == want
	case "s!=":
		return is != want
	case "s>=":
		return is >= want
	case "s<=":
		return is <= want
	case "s>":
		return is > want
	case "s<":
		return is < want
	case "<in>":
		return strings.Contains(is, want)
	case "<all-in>":
		return !slices.ContainsFunc(h.values, func(v string) bool { return !strings.Contains(is, v) })
	case "<or>":
		return slices.Contains(h.values, is)
	}
	x, err := strconv.ParseFloat(is, 64) // a number's operator on text that may be a number
	return err == nil && h.matchNumber(x, x)
}

func hintText(hs []hint) string {
	var s []string
	for _, h := range hs {
		s = append(s, h.name+" "+h.text)
	}
	return strings.Join(s, ", ")
}

func split(s, sep string) []string {
	var out []string
	for _, v := range strings.Split(s, sep) {
		out = append(out, strings.TrimSpace(v))
	}
	return out
}

// normal makes case and runs of blanks irrelevant.
func normal(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// unquote undoes the percent-encoding that Ironic allows in hints.
func unquote(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "1", "t", "true", "on", "y", "yes":
		return true, nil
	case "0", "f", "false", "off", "n", "no":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", s)
}
