package api

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// A field is one attribute of a resource as clients see it.
type field[T any] struct {
	name  string
	since version // the microversion that brought it; below, it is not there
	get   func(*call, *T) any
	// order compares two objects by the field; nil when lists cannot be
	// sorted by it.
	order func(a, b *T) int
}

// A resource is a kind of object that Ironic's API serves. Everything that
// lists and single objects have in common follows from its table of fields.
type resource[T any] struct {
	plural string
	noun   string // in error texts
	fields []field[T]
	brief  []string // the fields of a list that is not asked for more
	id     func(*T) string
	// born orders objects as they were created: the order of a list that is
	// not asked for another.
	born        func(a, b *T) int
	fieldsSince version // from which ?fields= is allowed
}

// project returns the fields to show: those named, or all when names is nil,
// without those that the call's version does not know. links always show.
func (rs *resource[T]) project(c *call, names []string) ([]field[T], error) {
	if err := rs.check(c, names); err != nil {
		return nil, err
	}
	var out []field[T]
	for _, f := range rs.fields {
		wanted := names == nil || f.name == "links" || slices.Contains(names, f.name)
		if wanted && f.since <= c.v {
			out = append(out, f)
		}
	}
	return out, nil
}

func (rs *resource[T]) check(c *call, names []string) error {
	var unknown []string
	for _, n := range names {
		f := rs.field(n)
		if f == nil {
			unknown = append(unknown, n)
		} else if f.since > c.v {
			return notAcceptable("field "+n, f.since)
		}
	}
	if unknown != nil {
		return invalid("Field(s) %s are not valid", shown(strings.Join(unknown, ", ")))
	}
	return nil
}

func (rs *resource[T]) field(name string) *field[T] {
	for i := range rs.fields {
		if rs.fields[i].name == name {
			return &rs.fields[i]
		}
	}
	return nil
}

// show answers with one object, by ?fields= in part.
func (rs *resource[T]) show(c *call, status int, v *T) error {
	names, err := rs.asked(c)
	if err != nil {
		return err
	}
	fields, err := rs.project(c, names)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeObject(&b, c, fields, v); err != nil {
		return err
	}
	c.raw(status, b.Bytes())
	return nil
}

// asked reads ?fields=.
func (rs *resource[T]) asked(c *call) ([]string, error) {
	s, ok := c.param("fields")
	if !ok {
		return nil, nil
	}
	if c.v < rs.fieldsSince {
		return nil, notAcceptable("?fields=", rs.fieldsSince)
	}
	names := []string{}
	for n := range strings.SplitSeq(s, ",") {
		if n = strings.TrimSpace(n); n != "" {
			names = append(names, n)
		}
	}
	return names, nil
}

func writeObject[T any](b *bytes.Buffer, c *call, fields []field[T], v *T) error {
	for i, f := range fields {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteByte('"')
		b.WriteString(f.name)
		b.WriteString(`":`)
		if err := writeValue(b, f.get(c, v)); err != nil {
			return err
		}
	}
	if len(fields) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return nil
}

// writeValue writes a value as JSON. What most fields are is written without
// the encoder, which a list of a thousand nodes would call 50,000 times.
func writeValue(b *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
		return nil
	case bool:
		b.WriteString(strconv.FormatBool(v))
		return nil
	case struct{}:
		b.WriteString("{}")
		return nil
	case string:
		if plain(v) {
			b.WriteByte('"')
			b.WriteString(v)
			b.WriteByte('"')
			return nil
		}
	}
	raw, err := json.Marshal(v)
	b.Write(raw)
	return err
}

// plain says whether a string needs no escapes in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}
