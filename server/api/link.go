package api

import "bessemer/agent/wire"

// links are the links that every object of Ironic's API carries: to itself,
// and a bookmark without the version.
func (c *call) links(path string) []wire.Link {
	return []wire.Link{
		{Href: c.url("/v1" + path), Rel: "self"},
		{Href: c.url(path), Rel: "bookmark"},
	}
}
