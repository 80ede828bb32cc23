package api

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A conductorView is a conductor as clients see it: ourselves.
type conductorView struct {
	host    string
	drivers []string
	created time.Time
	updated time.Time
}

var conductors = &resource[conductorView]{
	plural: "conductors", noun: "Conductor", fieldsSince: 49,
	brief: []string{"hostname", "conductor_group", "alive", "links"},
	id:    func(v *conductorView) string { return v.host },
	born:  func(a, b *conductorView) int { return a.created.Compare(b.created) },

	fields: []field[conductorView]{
		{"created_at", 49, func(_ *call, v *conductorView) any { return stamp(v.created) }, func(a, b *conductorView) int { return a.created.Compare(b.created) }},
		{"updated_at", 49, func(_ *call, v *conductorView) any { return stamp(v.updated) }, func(a, b *conductorView) int { return a.updated.Compare(b.updated) }},
		{"hostname", 49, func(_ *call, v *conductorView) any { return v.host }, func(a, b *conductorView) int { return strings.Compare(a.host, b.host) }},
		{"conductor_group", 49, func(*call, *conductorView) any { return "" }, func(a, b *conductorView) int { return 0 }},
		{"drivers", 49, func(_ *call, v *conductorView) any { return v.drivers }, nil},
		{"links", 49, func(c *call, v *conductorView) any { return c.links("/conductors/" + v.host) }, nil},
		{"alive", 49, func(*call, *conductorView) any { return true }, nil},
	},
}

func (a *API) self() *conductorView {
	return &conductorView{
		host: a.conductor.Hostname(), drivers: slices.Sorted(maps.Keys(a.conductor.Types())),
		created: a.started, updated: time.Now(),
	}
}

func listConductors(c *call) error {
	if err := c.only(listParams...); err != nil {
		return err
	}
	p, err := conductors.listing(c, false)
	if err != nil {
		return err
	}
	return conductors.answer(c, p, []*conductorView{c.api.self()}, nil)
}

func showConductor(c *call) error {
	if err := c.only("fields"); err != nil {
		return err
	}
	v := c.api.self()
	if host := c.path("host"); host != v.host && !(c.suffix && host+".json" == v.host) {
		return refuse(http.StatusNotFound, "Conductor %s could not be found.", printable(host))
	}
	return conductors.show(c, http.StatusOK, v)
}
