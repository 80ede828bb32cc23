package api

import (
	"net/http"

	"bessemer/store"
)

// healthz says that the process answers.
func healthz(c *call) error { return c.plain(http.StatusOK, "ok\n") }

// readyz says whether the appliance can do its work. What is missing is not
// told here, where nobody has to authenticate; /api/v1/status tells it.
func readyz(c *call) error {
	if err := c.api.db.View(func(*store.Tx) error { return nil }); err != nil {
		return c.plain(http.StatusServiceUnavailable, "store not ready\n")
	}
	if len(c.api.notReady()) > 0 {
		return c.plain(http.StatusServiceUnavailable, "not ready\n")
	}
	return c.plain(http.StatusOK, "ready\n")
}

func (a *API) notReady() []string {
	if a.Ready == nil {
		return nil
	}
	return a.Ready()
}

func (c *call) plain(status int, s string) error {
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.w.WriteHeader(status)
	_, _ = c.w.Write([]byte(s))
	return nil
}
