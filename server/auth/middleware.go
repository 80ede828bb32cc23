package auth

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
)

// Realm is what the API calls itself in a challenge, as Ironic does.
const Realm = "Baremetal API"

// Middleware lets a request through to next with its [Identity] in the
// context, or answers 401 in Ironic's shape. public says which requests need
// no identity; they get none even when they bring credentials.
func (a *Auth) Middleware(public func(*http.Request) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if public(r) {
			next.ServeHTTP(w, r)
			return
		}
		id, err := a.identify(r)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(With(r.Context(), id)))
	})
}

// identify reads the credentials of a request. Headers in which a proxy might
// claim an identity are not looked at: there is no such proxy.
func (a *Auth) identify(r *http.Request) (Identity, error) {
	if a.mode == None {
		return Identity{User: "anonymous", Role: Admin}, nil
	}
	if r.Header.Get("Authorization") != "" {
		user, password, ok := r.BasicAuth()
		if !ok {
			return Identity{}, errNotBasic
		}
		return a.Verify(Source(r), user, password)
	}
	if t := r.Header.Get("X-Auth-Token"); t != "" {
		return a.Token(t)
	}
	return Identity{}, errMissing
}

var (
	errMissing  = errors.New("authorization required")
	errNotBasic = errors.New("only basic authorization is supported")
)

func (a *Auth) refuse(w http.ResponseWriter, r *http.Request, err error) {
	code, text := http.StatusUnauthorized, ErrDenied.Error()
	switch {
	case errors.Is(err, ErrSlowDown):
		code, text = http.StatusTooManyRequests, ErrSlowDown.Error()
		w.Header().Set("Retry-After", "3")
	case errors.Is(err, errMissing), errors.Is(err, errNotBasic):
		text = err.Error()
	case !errors.Is(err, ErrDenied):
		a.log.Error().Err(err).Msg("authentication failed for a fault of ours")
		code, text = http.StatusInternalServerError, "authentication is out of order"
	}
	if code == http.StatusUnauthorized {
		challenge(w, r)
		a.log.Debug().Str("source", Source(r)).Str("why", text).Msg("request refused")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	type inner struct {
		Message string `json:"message"`
		Code    int    `json:"code"`
	}
	_ = json.NewEncoder(w).Encode(map[string]inner{"error": {strings.ToUpper(text[:1]) + text[1:], code}})
}

// challenge asks for Basic authentication, except of a script in a browser:
// there the header would open the browser's own dialog over the dashboard's.
func challenge(w http.ResponseWriter, r *http.Request) {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode == "" || mode == "navigate" {
		w.Header().Set("WWW-Authenticate", `Basic realm="`+Realm+`"`)
	}
}

// Source is the address that a request comes from, without the port.
func Source(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
