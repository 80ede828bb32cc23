package api

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"bessemer/server/auth"
)

const requestIDHeader = "Openstack-Request-Id"

// outside wraps a listener's handler in what every request goes through
// first. browsers says that browsers may come here, so that their requests
// are held to same-origin rules.
func (a *API) outside(next http.Handler, browsers bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		sw := &statusWriter{ResponseWriter: w}
		securityHeaders(sw.Header())
		sw.Header().Set(requestIDHeader, "req-"+uuid.NewString())
		r = normalize(r)
		r = a.metrics.watch(r)
		defer func() {
			a.metrics.done(r, sw, begun)
			a.log.Debug().Str("method", r.Method).Str("path", r.URL.Path).Int("status", sw.status).
				Dur("took", time.Since(begun)).Str("from", auth.Source(r)).Msg("request")
		}()
		defer a.recover(sw, r)
		if err := a.admit(r, browsers); err != nil {
			a.newCall(sw, r, nil).fail(err)
			return
		}
		next.ServeHTTP(sw, r)
	})
}

// securityHeaders are for answers that no browser shall show, guess at, frame
// or keep. The dashboard sets its own.
func securityHeaders(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// recover ends a request whose handler panicked. What happened is for the log
// alone.
func (a *API) recover(w *statusWriter, r *http.Request) {
	p := recover()
	if p == nil || p == http.ErrAbortHandler {
		return
	}
	c := a.newCall(w, r, nil)
	a.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Str("request", c.requestID()).
		Str("method", r.Method).Str("path", r.URL.Path).Msg("handler panicked")
	if w.status == 0 {
		c.writeFault(asFault(errPanic, c.requestID()))
	}
}

var errPanic = errors.New("internal error")

// admit refuses requests that a browser was tricked into, and names of this
// host that are not ours (DNS rebinding).
func (a *API) admit(r *http.Request, browsers bool) error {
	if p := r.URL.Path; p != path.Clean(p) && p != path.Clean(p)+"/" {
		return abort(http.StatusNotFound, "The resource could not be found.")
	}
	if !browsers {
		return nil
	}
	if !a.knownHost(r.Host) {
		return &fault{
			status: http.StatusForbidden, text: "The host name " + shown(r.Host) + " is not one of this appliance's",
			hint: "add it to api.hosts",
		}
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r.Host) {
		return refuse(http.StatusForbidden, "Requests from pages of another site are refused")
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return refuse(http.StatusForbidden, "Requests from pages of another site are refused")
	}
	return nil
}

func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// knownHost says whether requests may name us so. Without a list any name
// will do, except when nobody authenticates: then only this machine's own.
func (a *API) knownHost(hostport string) bool {
	open := a.Auth != nil && a.Auth.Mode() == auth.None
	if len(a.Hosts) == 0 && !open {
		return true
	}
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	return host == "localhost" || net.ParseIP(host) != nil || slices.ContainsFunc(a.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// atMost bounds how many requests are served at once on a listener where
// nobody authenticates.
func (a *API) atMost(n int, next http.Handler) http.Handler {
	slots := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			a.newCall(w, r, nil).fail(refuse(http.StatusServiceUnavailable, "Too many requests at once"))
		}
	})
}

// statusWriter remembers what was answered.
type statusWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *statusWriter) WriteHeader(code int) {
	if w.status == 0 {
		w.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
