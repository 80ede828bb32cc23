package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/stmcginnis/gofish"

	"bessemer/bmc"
)

// conn is the connection to a controller: requests with a login, a bounded
// number of repetitions, and errors that say what came back.
type conn struct {
	s         settings
	transport *transport
	client    *http.Client
	api       *gofish.APIClient // nil until the service root was read
	root      root
	login     login
	etags     int  // the form of If-Match that worked last
	looked    bool // for a session that was left open
	fragile   bool // connections that are used again break
}

func newConn(s settings) *conn {
	t := newTransport(s)
	return &conn{s: s, transport: t, client: t.client(s.requestTimeout)}
}

// secrets are what must not get into a text.
func (c *conn) secrets() []string {
	return []string{c.s.password, basicHeader(c.s.user, c.s.password), c.login.token}
}

// get reads a resource into v.
func (c *conn) get(ctx context.Context, path string, v any) (*exchange, error) {
	x, err := c.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return x, err
	}
	if err := json.Unmarshal(x.body, v); err != nil {
		return x, notRedfish(http.MethodGet, path, x, err)
	}
	return x, nil
}

// do makes a request. Reads, and writes that may be made twice, are repeated
// while the controller is not ready or drops the connection; a
// POST is not, as only its effect can tell whether it was done.
func (c *conn) do(ctx context.Context, method, path string, payload any, header map[string]string) (x *exchange, err error) {
	if method == http.MethodPost {
		return c.authorized(ctx, method, path, payload, header)
	}
	err = c.again(ctx, func() (err error) {
		x, err = c.authorized(ctx, method, path, payload, header)
		return err
	})
	return x, err
}

// again calls fn, and again while its error is worth it and time is left.
func (c *conn) again(ctx context.Context, fn func() error) error {
	begun := time.Now()
	for n := 1; ; n++ {
		err := fn()
		if err == nil {
			return nil
		}
		c.fragile = c.fragile || isDropped(err) && !errors.Is(err, syscall.ECONNREFUSED)
		pause, ok := repeat(err, n, c.s.retryGap)
		if !ok || time.Since(begun)+pause > c.s.retryFor || !sleep(ctx, pause) {
			return err
		}
	}
}

// repeat decides whether a request that failed for the n-th time is worth
// repeating, and after which pause.
func repeat(err error, n int, gap time.Duration) (time.Duration, bool) {
	pause := gap << min(n-1, 4)
	var e *statusError
	if !errors.As(err, &e) {
		if n == 1 {
			pause = 0 // a connection that was kept too long
		}
		return pause, n < 3 && isDropped(err)
	}
	if e.retryAfter > 0 {
		pause = e.retryAfter
	}
	switch {
	case e.says(sessionsFull):
		return 0, false
	case e.status == http.StatusServiceUnavailable, e.says(notReady):
		return pause, true
	case e.status == http.StatusTooManyRequests:
		return pause, e.retryAfter > 0 // without it, Huawei means a missing ETag
	case e.status >= 500 && e.status != http.StatusNotImplemented, e.status == http.StatusConflict:
		return pause, n < 3
	}
	return 0, false
}

// isDropped reports whether a connection broke, other than by a time-out.
func isDropped(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(err.Error(), "server closed idle connection")
}

// authorized makes a request with a login, and once more with a new login if
// the session has ended.
func (c *conn) authorized(ctx context.Context, method, path string, payload any, header map[string]string) (*exchange, error) {
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	if err := c.logIn(ctx); err != nil {
		return nil, err
	}
	x, err := c.once(ctx, c.login.header(c.s), method, path, payload, header)
	if status(err) == http.StatusUnauthorized && c.login.token != "" {
		c.login = login{}
		if err := c.logIn(ctx); err != nil {
			return nil, err
		}
		x, err = c.once(ctx, c.login.header(c.s), method, path, payload, header)
	}
	if status(err) == http.StatusUnauthorized {
		return x, fmt.Errorf("%w: %w", bmc.ErrCredentials, err)
	}
	return x, err
}

// connect reads the service root, without a login as the specification has
// it, or with one where a controller insists.
func (c *conn) connect(ctx context.Context) error {
	if c.api != nil {
		return nil
	}
	x, err := c.open(ctx, nil)
	if x.status == http.StatusUnauthorized && c.s.user != "" && c.s.auth != "session" {
		if x, err = c.open(ctx, basicAuth(c.s)); x.status == http.StatusUnauthorized {
			return fmt.Errorf("%w: %w", bmc.ErrCredentials, err)
		}
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(x.body, &c.root); err != nil {
		c.api = nil
		return fmt.Errorf("read the service root: %w", err)
	}
	return nil
}

func (c *conn) open(ctx context.Context, auth http.Header) (*exchange, error) {
	x := &exchange{auth: auth}
	api, err := gofish.ConnectContext(withExchange(ctx, x), gofish.ClientConfig{
		Endpoint:   c.s.origin.String(),
		HTTPClient: c.client, NoModifyTransport: true, ReuseConnections: true,
	})
	if err == nil {
		c.api = api
		c.api.Service = nil // thousands of copies of the root, which we read ourselves
		return x, nil
	}
	return x, c.explain(err, http.MethodGet, "/redfish/v1/", x)
}

// once makes one request and returns what came back.
func (c *conn) once(ctx context.Context, auth http.Header, method, path string, payload any, header map[string]string) (*exchange, error) {
	if !strings.HasPrefix(path, "/") {
		return &exchange{}, fmt.Errorf("%w: its link %q is no path", errForeign, path)
	}
	if c.fragile || method == http.MethodPost || method == http.MethodDelete { // not repeated by anyone: must not meet a dead connection
		c.transport.base.CloseIdleConnections()
	}
	x := &exchange{auth: auth}
	api := c.api.WithContext(withExchange(ctx, x))
	var resp *http.Response
	var err error
	switch method {
	case http.MethodGet:
		resp, err = api.GetWithHeaders(path, header)
	case http.MethodPatch:
		resp, err = api.PatchWithHeaders(path, payload, header)
	case http.MethodPost:
		resp, err = api.PostWithHeaders(path, payload, header)
	case http.MethodDelete:
		resp, err = api.DeleteWithHeaders(path, header)
	default:
		return x, fmt.Errorf("method %s: %w", method, bmc.ErrUnsupported)
	}
	if resp != nil {
		_ = resp.Body.Close()
	}
	return x, c.explain(err, method, path, x)
}

// explain turns what a request failed with into an error of ours.
func (c *conn) explain(err error, method, path string, x *exchange) error {
	var slow net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bmc.ErrTLS), errors.Is(err, errForeign), errors.Is(err, errTooLarge), errors.Is(err, errRedirect),
		errors.Is(err, context.Canceled):
		return err
	case x.status >= 300:
		return newStatusError(method, path, x, c.secrets())
	case x.status != 0:
		return notRedfish(method, path, x, bmc.Scrub(err, c.secrets()...))
	case errors.As(err, &slow) && slow.Timeout():
		return fmt.Errorf("%w in time: %w", bmc.ErrUnreachable, err)
	}
	err = bmc.Scrub(err, c.secrets()...)
	if strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return fmt.Errorf("%w over HTTPS: the port speaks plain HTTP; begin redfish_address with http:// if that is meant: %w", bmc.ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %w", bmc.ErrUnreachable, err)
}

func notRedfish(method, path string, x *exchange, err error) error {
	return fmt.Errorf("%s %s: the answer is no Redfish resource: %w; it begins %q",
		method, path, err, oneLine(string(x.body[:min(len(x.body), 100)])))
}

// sleep waits; it returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
