package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxLimit is the greatest page of a list.
const maxLimit = 1000

// A page is what a request asks of a list beside its filters.
type page struct {
	limit  int
	marker string
	key    string // sort key, "" for the order of creation
	desc   bool
	names  []string // nil: all fields
}

// detailSince is the version that brought ?detail=.
const detailSince = 43

// listing reads the parameters that all lists have in common. detailed says
// that the path itself asks for all fields.
func (rs *resource[T]) listing(c *call, detailed bool) (page, error) {
	p := page{limit: maxLimit, marker: c.query.Get("marker")}
	if s, ok := c.param("limit"); ok {
		n, err := parseUint("limit", s)
		if err != nil {
			return p, err
		}
		if n <= 0 {
			return p, invalid("Limit must be positive")
		}
		p.limit = min(n, maxLimit)
	}
	switch s, ok := c.param("sort_dir"); {
	case !ok, s == "asc":
	case s == "desc":
		p.desc = true
	default:
		return p, invalid("Invalid sort direction: %s. Acceptable values are 'asc' or 'desc'", shown(s))
	}
	if s, ok := c.param("sort_key"); ok && s != "id" {
		f := rs.field(s)
		if f == nil || f.order == nil {
			return p, invalid("The sort_key value %s is an invalid field for sorting", shown(s))
		}
		if f.since > c.v {
			return p, notAcceptable("sort_key "+s, f.since)
		}
		p.key = s
	}
	var err error
	p.names, err = rs.columns(c, detailed)
	return p, err
}

// columns decides which fields a list shows: those asked for by ?fields=, all
// by ?detail=true or the path, or the brief ones.
func (rs *resource[T]) columns(c *call, detailed bool) ([]string, error) {
	names, err := rs.asked(c)
	if err != nil {
		return nil, err
	}
	s, has := c.param("detail")
	if has && c.v < detailSince {
		return nil, invalid("Invalid query parameter ?detail=%s received.", shown(s))
	}
	if has {
		detail, err := parseBool("detail", s)
		if err != nil {
			return nil, err
		}
		detailed = detailed || detail
	}
	switch {
	case detailed && names != nil:
		return nil, invalid("Can not specify ?detail=True and fields in the same request.")
	case detailed, names != nil:
		return names, nil
	}
	return rs.visible(c, rs.brief), nil
}

// visible leaves out of names what the call's version does not know.
func (rs *resource[T]) visible(c *call, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return rs.field(n).since > c.v })
}

// answer writes the page of those of all that pass keep (nil: all do).
func (rs *resource[T]) answer(c *call, p page, all []*T, keep func(*T) bool) error {
	fields, err := rs.project(c, p.names)
	if err != nil {
		return err
	}
	all, more, err := rs.cut(p, all, keep)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString(`{"` + rs.plural + `":[`)
	for i, v := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := writeObject(&b, c, fields, v); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	if more {
		next, _ := json.Marshal(c.next(p.limit, rs.id(all[len(all)-1])))
		b.WriteString(`,"next":` + string(next))
	}
	b.WriteByte('}')
	c.raw(200, b.Bytes())
	return nil
}

// cut sorts what passes keep and cuts the page out of it. The marker need not
// pass: it may have changed since it ended the page before.
func (rs *resource[T]) cut(p page, all []*T, keep func(*T) bool) (one []*T, more bool, err error) {
	order := rs.compare(p)
	var marker *T
	if p.marker != "" {
		i := slices.IndexFunc(all, func(v *T) bool { return strings.EqualFold(rs.id(v), p.marker) })
		if i < 0 && !isUUID(p.marker) {
			return nil, false, invalid("The marker %s is not in the list", shown(p.marker))
		}
		if i < 0 {
			return nil, false, refuse(http.StatusNotFound, "%s %s could not be found.", rs.noun, printable(p.marker))
		}
		marker = all[i]
	}
	one = make([]*T, 0, len(all)) // all may be shared
	for _, v := range all {
		if (keep == nil || keep(v)) && (marker == nil || order(v, marker) > 0) {
			one = append(one, v)
		}
	}
	slices.SortFunc(one, order)
	n := min(len(one), p.limit)
	return one[:n], n < len(one), nil
}

// compare orders objects by the page's key and, where that does not decide,
// by creation and identity, so that paging never loses or repeats one.
func (rs *resource[T]) compare(p page) func(a, b *T) int {
	by := rs.born
	if p.key != "" {
		by = rs.field(p.key).order
	}
	return func(a, b *T) int {
		r := by(a, b)
		if p.desc {
			r = -r
		}
		if r == 0 {
			r = rs.born(a, b)
		}
		if r == 0 && rs.id(a) < rs.id(b) {
			return -1
		}
		if r == 0 && rs.id(a) > rs.id(b) {
			return 1
		}
		return r
	}
}

// next is the URL of the page after this one: the same request, further on.
func (c *call) next(limit int, marker string) string {
	q := url.Values{}
	for k, v := range c.query {
		q[k] = v
	}
	q.Set("limit", strconv.Itoa(limit))
	q.Set("marker", marker)
	return c.url(c.r.URL.Path) + "?" + q.Encode()
}
