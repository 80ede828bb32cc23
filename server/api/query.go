package api

import "slices"

// param returns a query parameter and whether it is there.
func (c *call) param(name string) (string, bool) {
	vs, ok := c.query[name]
	if !ok || len(vs) == 0 {
		return "", false
	}
	return vs[0], true
}

// listParams are the parameters that every list takes.
var listParams = []string{"limit", "marker", "sort_key", "sort_dir", "fields", "detail"}

// only refuses query parameters that are not among those named.
func (c *call) only(names ...string) error {
	for k := range c.query {
		if !slices.Contains(names, k) {
			return invalid("Unknown query parameter %s", shown(k))
		}
	}
	return nil
}

// A filter is a query parameter that leaves objects out of a list.
type filter[T any] struct {
	name  string
	since version
	parse func(c *call, value string) (keep func(*T) bool, err error)
}

// filters reads the filters that a request names and returns one that is all
// of them.
func filters[T any](c *call, known []filter[T]) (func(*T) bool, error) {
	var keeps []func(*T) bool
	for _, f := range known {
		s, ok := c.param(f.name)
		if !ok {
			continue
		}
		if c.v < f.since {
			return nil, notAcceptable("?"+f.name+"=", f.since)
		}
		keep, err := f.parse(c, s)
		if err != nil {
			return nil, err
		}
		keeps = append(keeps, keep)
	}
	return func(v *T) bool {
		for _, keep := range keeps {
			if !keep(v) {
				return false
			}
		}
		return true
	}, nil
}

// equals is a filter's parse for fields that must have exactly a value.
func equals[T any](get func(*T) string) func(*call, string) (func(*T) bool, error) {
	return func(_ *call, want string) (func(*T) bool, error) {
		return func(v *T) bool { return get(v) == want }, nil
	}
}

// isTrue is a filter's parse for booleans.
func isTrue[T any](name string, get func(*T) bool) func(*call, string) (func(*T) bool, error) {
	return func(_ *call, s string) (func(*T) bool, error) {
		want, err := parseBool(name, s)
		if err != nil {
			return nil, err
		}
		return func(v *T) bool { return get(v) == want }, nil
	}
}

// names returns the query parameters of filters.
func names[T any](known []filter[T]) []string {
	out := slices.Clone(listParams)
	for _, f := range known {
		out = append(out, f.name)
	}
	return out
}
