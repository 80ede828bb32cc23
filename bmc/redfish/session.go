package redfish

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"bessemer/bmc"
)

// login is how requests are authorized now.
type login struct {
	token string // of a session
	path  string // of the session resource, to end it
	basic bool
}

// header returns what a request needs to be authorized.
func (l login) header(s settings) http.Header {
	switch {
	case l.token != "":
		return http.Header{"X-Auth-Token": {l.token}}
	case l.basic:
		return basicAuth(s)
	}
	return nil
}

func basicAuth(s settings) http.Header {
	return http.Header{"Authorization": {"Basic " + basicHeader(s.user, s.password)}}
}

func basicHeader(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// logIn makes a session, unless there is one or none is wanted. A controller
// without sessions, or with no room for another one, is asked
// with the password each time. A refused password is never tried in another
// way: that would only hasten the account's lock.
func (c *conn) logIn(ctx context.Context) error {
	if c.s.user == "" || c.login != (login{}) {
		return nil
	}
	if c.s.auth == "basic" {
		c.login.basic = true
		return nil
	}
	sessions := c.sessionsPath()
	if sessions == "" {
		return c.fallBack(ctx, errors.New("the controller offers no sessions"))
	}
	x, err := c.postSession(ctx, sessions)
	if full := (&statusError{}); errors.As(err, &full) && full.says(sessionsFull) && c.s.auth != "session" && c.endLeft(ctx, basicAuth(c.s)) {
		x, err = c.postSession(ctx, sessions)
	}
	if err == nil {
		return c.take(ctx, x)
	}
	var e *statusError
	if !errors.As(err, &e) {
		return fmt.Errorf("log in: %w", err)
	}
	switch {
	case e.says(sessionsFull):
		return c.fallBack(ctx, fmt.Errorf("the controller has no room for another session: %w", err))
	case e.status == http.StatusUnauthorized, e.status == http.StatusForbidden, e.says(badLogin):
		return fmt.Errorf("log in as %q: %w: %w", c.s.user, bmc.ErrCredentials, err)
	case e.status == http.StatusNotFound, e.status == http.StatusMethodNotAllowed, e.status == http.StatusNotImplemented:
		return c.fallBack(ctx, err)
	case e.status == http.StatusServiceUnavailable:
		return c.fallBack(ctx, fmt.Errorf("the controller makes no session now: %w", err))
	}
	return fmt.Errorf("log in: %w", err)
}

// sessionsPath is where sessions are made: the root's own link, as the
// session service may not be readable without a session.
func (c *conn) sessionsPath() string {
	if p := c.root.Links.v.Sessions.path(); p != "" {
		return p
	}
	if p := c.root.SessionService.path(); p != "" {
		return strings.TrimSuffix(p, "/") + "/Sessions"
	}
	return ""
}

// postSession asks for a session, again while the controller is starting: it
// says itself that it has made none.
func (c *conn) postSession(ctx context.Context, path string) (*exchange, error) {
	payload := map[string]string{"UserName": c.s.user, "Password": c.s.password}
	var x *exchange
	var refused error
	err := c.again(ctx, func() (err error) {
		x, err = c.once(ctx, nil, http.MethodPost, path, payload, nil)
		var e *statusError
		if errors.As(err, &e) && !e.says(sessionsFull) && (e.status == http.StatusServiceUnavailable || e.says(notReady)) {
			return err
		}
		refused = err
		return nil
	})
	if err == nil {
		err = refused
	}
	return x, err
}

// take keeps a session that was made.
func (c *conn) take(ctx context.Context, x *exchange) error {
	token := x.header.Get("X-Auth-Token")
	if token == "" {
		return c.fallBack(ctx, errors.New("the controller made a session but sent no X-Auth-Token"))
	}
	c.login = login{token: token, path: sessionPath(x)}
	c.endLeft(ctx, c.login.header(c.s))
	if c.s.sessions != nil && c.login.path != "" {
		c.s.sessions.Opened(c.s.origin.String() + c.login.path)
	}
	return nil
}

// endLeft ends the session that an earlier process has left open, and
// reports whether it did. It looks once, and only at what is still ours: the
// controller may have given the name to somebody else's session since. What
// fails is left to the controller's own time-out.
func (c *conn) endLeft(ctx context.Context, auth http.Header) bool {
	if c.looked || c.s.sessions == nil {
		return false
	}
	c.looked = true
	path, ours := strings.CutPrefix(c.s.sessions.Left(), c.s.origin.String())
	if !ours || path == c.login.path {
		return false
	}
	x, err := c.once(ctx, auth, http.MethodGet, path, nil, nil)
	var doc struct{ UserName text }
	if err != nil || json.Unmarshal(x.body, &doc) != nil || string(doc.UserName) != c.s.user {
		return false
	}
	_, err = c.once(ctx, auth, http.MethodDelete, path, nil, nil)
	return err == nil
}

// sessionPath finds the new session's own resource: in Location, of which
// only the path counts as controllers know their host by strange names, or in
// the body.
func sessionPath(x *exchange) string {
	if u, err := url.Parse(x.header.Get("Location")); err == nil && strings.HasPrefix(u.Path, "/") {
		return u.Path
	}
	var l loose[link]
	_ = json.Unmarshal(x.body, &l) // no body: the session ends by itself
	return l.path()
}

func (c *conn) fallBack(ctx context.Context, why error) error {
	if c.s.auth == "session" {
		return fmt.Errorf("log in: %w; redfish_auth_type=auto would send the password with each request instead", why)
	}
	c.login = login{basic: true}
	if ctx.Err() == nil {
		bmc.Note(ctx, fmt.Sprintf("the password is sent with each request: %v", why))
	}
	return nil
}

// close ends the session and the connections. A session that the controller
// no longer knows is no fault.
func (c *conn) close() error {
	defer c.transport.base.CloseIdleConnections()
	l := c.login
	c.login = login{}
	if c.api == nil || l.token == "" || l.path == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := c.again(ctx, func() error { // at a bad moment it would stay open
		_, err := c.once(ctx, l.header(c.s), http.MethodDelete, l.path, nil, nil)
		return err
	})
	if s := status(err); err == nil || s == http.StatusNotFound || s == http.StatusUnauthorized {
		if c.s.sessions != nil {
			c.s.sessions.Ended(c.s.origin.String() + l.path)
		}
		return nil
	}
	return fmt.Errorf("end session: %w", bmc.Scrub(err, l.token))
}
