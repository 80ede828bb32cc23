package bmc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Fields reads the keys of a driver_info and collects what is wrong with
// them, so that [Type.Open] can report every fault at once.
type Fields struct {
	info   map[string]any
	faults []error
}

// Fields returns a reader of the target's driver_info.
func (t Target) Fields() *Fields { return &Fields{info: t.DriverInfo} }

// Err returns all faults found so far, or nil.
func (f *Fields) Err() error { return errors.Join(f.faults...) }

// Fault adds a fault of a key: "redfish_address: ...".
func (f *Fields) Fault(key, format string, args ...any) {
	f.faults = append(f.faults, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

// Has reports whether a key is there and neither null nor "".
func (f *Fields) Has(key string) bool {
	v, ok := f.info[key]
	return ok && v != nil && v != ""
}

// String returns the text of a key, or def when it is missing. A whole number
// is taken as the text that its digits are (I-07); one too large to have kept
// its digits is a fault.
func (f *Fields) String(key, def string) string {
	switch v := f.info[key].(type) {
	case nil:
		return def
	case string:
		if v == "" {
			return def
		}
		return v
	case json.Number:
		return v.String()
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
		f.Fault(key, "is a number that JSON cannot keep exactly; write it in quotes")
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	default:
		f.Fault(key, "must be a string, is %s", kindOf(v))
	}
	return def
}

// BoolOrString returns a key that is a truth value or a text: the text, or b
// when it can be read as a truth value.
func (f *Fields) BoolOrString(key string, def bool) (s string, b bool) {
	if !f.Has(key) {
		return "", def
	}
	if b, ok := ParseBool(f.info[key]); ok {
		return "", b
	}
	return f.String(key, ""), def
}

// Required returns the text of a key; a missing one is a fault.
func (f *Fields) Required(key string) string {
	if !f.Has(key) {
		f.Fault(key, "is missing")
		return ""
	}
	return f.String(key, "")
}

// Int returns the whole number of a key, written as a number or a string, or
// def when it is missing. One outside lo to hi is a fault.
func (f *Fields) Int(key string, def, lo, hi int) int {
	if !f.Has(key) {
		return def
	}
	s := f.String(key, "")
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < lo || n > hi {
		f.Fault(key, "must be a whole number from %d to %d, is %q", lo, hi, s)
		return def
	}
	return n
}

// Bool returns the truth value of a key, or def when it is missing. Only
// true, false, and the strings that Ironic takes for these count; "False" is
// false (I-14), and any other string is a fault.
func (f *Fields) Bool(key string, def bool) bool {
	if !f.Has(key) {
		return def
	}
	b, ok := ParseBool(f.info[key])
	if !ok {
		f.Fault(key, "must be true or false, is %v", f.info[key])
		return def
	}
	return b
}

// OneOf returns the text of a key in lower case, or def when it is missing.
// One that is not among the choices is a fault.
func (f *Fields) OneOf(key, def string, choices ...string) string {
	s := strings.ToLower(f.String(key, def))
	for _, c := range choices {
		if s == c {
			return c
		}
	}
	f.Fault(key, "must be one of %s, is %q", strings.Join(choices, ", "), s)
	return def
}

// ParseBool reads a truth value strictly, with the words that Ironic takes.
func ParseBool(v any) (b, ok bool) {
	switch v := v.(type) {
	case bool:
		return v, true
	case float64:
		return v == 1, v == 0 || v == 1
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "true", "yes", "on", "1", "t", "y":
			return true, true
		case "false", "no", "off", "0", "f", "n":
			return false, true
		}
	}
	return false, false
}

// kindOf names the kind of a JSON value.
func kindOf(v any) string {
	switch v.(type) {
	case bool:
		return "a truth value"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	default:
		return fmt.Sprintf("a %T", v)
	}
}

// sameInfo reports whether two driver_infos say the same.
func sameInfo(a, b map[string]any) bool {
	x, errx := json.Marshal(a)
	y, erry := json.Marshal(b)
	return errx == nil && erry == nil && bytes.Equal(x, y)
}
