package api

import (
	"net/http"
	"strings"

	"bessemer/agent/wire"
)

// root serves "/": the dashboard to browsers, discovery to clients.
func (a *API) root(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		a.newCall(w, r, nil).fail(abort(http.StatusMethodNotAllowed, "The method %s is not allowed for this resource", r.Method))
		return
	}
	if a.UI != nil && strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Redirect(w, r, "/ui/", http.StatusFound)
		return
	}
	_ = discovery(a.newCall(w, r, nil))
}

// discovery tells the versions of the API. The answer has no version headers,
// as in Ironic.
func discovery(c *call) error {
	c.w.Header().Del(minVersionHeader)
	c.w.Header().Del(maxVersionHeader)
	c.w.Header().Del(versionHeader)
	c.json(http.StatusOK, struct {
		Name        string     `json:"name"`
		Description string     `json:"description"`
		Default     apiVersion `json:"default_version"`
		Versions    []any      `json:"versions"`
	}{
		"Bessemer", "Provisions bare-metal machines; the API is OpenStack Ironic's",
		c.version(),
		[]any{c.version()},
	})
	return nil
}

type apiVersion struct {
	ID      string      `json:"id"`
	Links   []wire.Link `json:"links"`
	Status  string      `json:"status"`
	Min     string      `json:"min_version"`
	Version string      `json:"version"`
}

func (c *call) version() apiVersion {
	return apiVersion{"v1", []wire.Link{{Href: c.url("/v1/"), Rel: "self"}}, "CURRENT", minVersion.String(), maxVersion.String()}
}

// collections are the resources that v1 links to.
var collections = []struct {
	name  string
	since version
}{{"nodes", 1}, {"ports", 1}, {"drivers", 1}, {"lookup", 22}, {"heartbeat", 22}, {"conductors", 49}}

// v1 tells what there is below /v1.
func v1(c *call) error {
	doc := map[string]any{
		"id":          "v1",
		"links":       []wire.Link{{Href: c.url("/v1/"), Rel: "self"}},
		"media_types": map[string]string{"base": "application/json", "type": "application/vnd.openstack.ironic.v1+json"},
		"version":     c.version(),
	}
	for _, r := range collections {
		if c.v >= r.since {
			doc[r.name] = []wire.Link{
				{Href: c.url("/v1/" + r.name + "/"), Rel: "self"},
				{Href: c.url("/" + r.name + "/"), Rel: "bookmark"},
			}
		}
	}
	c.json(http.StatusOK, doc)
	return nil
}
