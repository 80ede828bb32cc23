package configs

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// A Setting is one leaf of a Config.
type Setting struct {
	Key  string // "api.listen"
	Help string
	v    reflect.Value
}

// Settings lists the leaves of c in the order of the file; setting one
// changes c.
func Settings(c *Config) []Setting {
	return leaves("", reflect.ValueOf(c).Elem(), nil)
}

func leaves(prefix string, v reflect.Value, out []Setting) []Setting {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := prefix + f.Tag.Get("yaml")
		if f.Type.Kind() == reflect.Struct {
			out = leaves(key+".", v.Field(i), out)
			continue
		}
		out = append(out, Setting{Key: key, Help: f.Tag.Get("help"), v: v.Field(i)})
	}
	return out
}

// Env is the setting's environment variable.
func (s Setting) Env() string {
	return "BESSEMER_" + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// Flag is the setting's flag, without dashes.
func (s Setting) Flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.Key)
}

// IsBool tells whether the setting is on or off.
func (s Setting) IsBool() bool { return s.v.Kind() == reflect.Bool }

// String returns the value as a flag or variable would give it.
func (s Setting) String() string {
	if l, ok := s.v.Interface().([]string); ok {
		return strings.Join(l, ",")
	}
	return fmt.Sprint(s.v.Interface())
}

// Set parses text into the setting; lists are separated by commas.
func (s Setting) Set(text string) error {
	switch p := s.v.Addr().Interface().(type) {
	case *string:
		*p = text
	case *bool:
		b, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return fmt.Errorf("%s: %q is neither true nor false", s.Key, text)
		}
		*p = b
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%s: %q is not a whole number", s.Key, text)
		}
		*p = n
	case *Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%s: %q is not a duration such as 30s or 10m", s.Key, text)
		}
		*p = Duration(d)
	case *[]string:
		*p = list(text)
	}
	return nil
}

func list(text string) []string {
	out := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
