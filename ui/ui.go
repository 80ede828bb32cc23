// Package ui embeds and serves the dashboard. Without a built one it says so.
package ui

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed all:dist
var dist embed.FS

//go:embed unbuilt.html
var unbuilt []byte

// Handler serves the dashboard below /ui/.
func Handler() http.Handler {
	files, err := fs.Sub(dist, "dist")
	if err == nil {
		if _, err := fs.Stat(files, "index.html"); err == nil {
			return headers(http.StripPrefix("/ui/", http.FileServerFS(files)))
		}
	}
	return headers(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusNotImplemented)
		_, _ = w.Write(unbuilt)
	}))
}

// headers keeps the pages to themselves: nothing from elsewhere, no frames.
func headers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		h.ServeHTTP(w, r)
	})
}
