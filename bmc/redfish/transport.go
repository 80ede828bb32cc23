package redfish

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

const (
	maxBody      = 8 << 20 // decoded bytes of one answer (H5)
	maxRedirects = 3
	// idle is how long a connection that is not used stays open: the requests
	// of one operation share it, thousands of controllers do not hold on to
	// thousands of descriptors.
	idle = 5 * time.Second
)

var (
	errForeign  = errors.New("refused to leave the enrolled controller")
	errTooLarge = fmt.Errorf("answer larger than %d MiB", maxBody>>20)
	errRedirect = errors.New("redirected")
)

// An exchange rides on the context of a request: what to add to it, and what
// came back, which the library above would drop in part.
type exchange struct {
	auth   http.Header
	status int // 0 when no answer came
	header http.Header
	body   []byte
}

type exchangeKey struct{}

// transport carries requests to one controller and to nothing else (H2, H3).
// It bounds answers, reads them whole, and tells of each exchange.
type transport struct {
	origin *url.URL
	base   *http.Transport
	// plain is set once the controller has refused the header that asks for
	// an answer without compression.
	plain atomic.Bool
}

func newTransport(s settings) *transport {
	dialer := &net.Dialer{Timeout: s.connect, KeepAlive: 30 * time.Second}
	return &transport{
		origin: s.origin,
		base: &http.Transport{
			Proxy:                  nil, // controllers are never behind the web's proxy
			DialContext:            dialer.DialContext,
			TLSClientConfig:        s.trust.config(s.origin.Hostname()),
			TLSHandshakeTimeout:    s.connect,
			DisableCompression:     true,
			MaxConnsPerHost:        2,
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        idle,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

// client returns the HTTP client over the transport.
func (t *transport) client(timeout time.Duration) *http.Client {
	return &http.Client{Transport: t, Timeout: timeout, CheckRedirect: t.checkRedirect}
}

// checkRedirect follows redirects on the controller itself, such as those to
// a path with a slash at its end, as long as they do not turn a write into a
// read.
func (t *transport) checkRedirect(r *http.Request, via []*http.Request) error {
	if err := t.check(r.URL); err != nil {
		return err
	}
	if len(via) > maxRedirects {
		return fmt.Errorf("%w more than %d times", errRedirect, maxRedirects)
	}
	if r.Method != via[0].Method {
		return fmt.Errorf("%w: a %s to %s would become a %s of %s", errRedirect, via[0].Method, via[0].URL.Path, r.Method, r.URL.Path)
	}
	return nil
}

// check refuses URLs that do not point to the enrolled controller.
func (t *transport) check(u *url.URL) error {
	if u.Scheme == t.origin.Scheme && hostPort(u) == t.origin.Host && u.User == nil {
		return nil
	}
	return fmt.Errorf("%w %s://%s: it pointed to %s://%s", errForeign, t.origin.Scheme, t.origin.Host, u.Scheme, u.Host)
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.check(r.URL); err != nil {
		return nil, err
	}
	resp, err := t.send(r)
	if err != nil || resp.StatusCode != http.StatusNotAcceptable || t.plain.Load() || (r.Body != nil && r.GetBody == nil) {
		return resp, err
	}
	t.plain.Store(true)
	if r.GetBody != nil {
		if r.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return t.send(r)
}

func (t *transport) send(r *http.Request) (*http.Response, error) {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	if x == nil {
		x = &exchange{}
	}
	r = r.Clone(r.Context())
	if !t.plain.Load() {
		r.Header.Set("Accept-Encoding", "identity")
	}
	r.Header.Set("User-Agent", "bessemer")
	r.Header.Set("OData-Version", "4.0")
	for k, v := range x.auth {
		r.Header[k] = v
	}
	x.status, x.header, x.body = 0, nil, nil
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		t.tell(r, 0, 0)
		return nil, err
	}
	body, err := readBody(resp)
	t.tell(r, resp.StatusCode, len(body))
	if err != nil {
		return nil, err
	}
	x.status, x.header, x.body = resp.StatusCode, resp.Header, body
	resp.Body = io.NopCloser(bytes.NewReader(x.body))
	resp.Header.Del("Content-Encoding")
	resp.ContentLength = int64(len(x.body))
	return resp, nil
}

func (t *transport) tell(r *http.Request, status, in int) {
	bmc.Exchanged(r.Context(), store.Wire{
		Proto: "redfish", Method: r.Method, Path: r.URL.Path, Status: status, Peer: t.origin.Host,
		Out: max(r.ContentLength, 0), In: int64(in),
	})
}

// readBody reads an answer to its end and closes it. One that was compressed
// though not asked for is decoded, within the same bound.
func readBody(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	var r io.Reader = resp.Body
	if resp.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(io.LimitReader(r, maxBody))
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decompress answer: %w", err)
		}
		r = z
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if len(raw) > maxBody {
		return nil, errTooLarge
	}
	return raw, err
}

// withExchange returns a context whose requests use x.
func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}
