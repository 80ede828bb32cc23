package fetch

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

const maxRedirects = 5

// Client returns a client that keeps to the policy in every request, also in
// redirects and at the moment of connecting. It uses no proxy, asks for no
// compression, follows at most 5 redirects and none from https to http. It has
// no limit on a whole download; [Open] sets one per read. Keep the client: it
// holds the connections.
func (p Policy) Client() *http.Client {
	d := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 15 * time.Second, Control: p.control, LocalAddr: p.LocalAddr()}
	t := &http.Transport{
		DialContext:            d.DialContext,
		DisableCompression:     true,
		ForceAttemptHTTP2:      false, // one TCP stream per file is faster, and one parser less
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.Roots, InsecureSkipVerify: p.Insecure},
		TLSHandshakeTimeout:    15 * time.Second,
		ResponseHeaderTimeout:  60 * time.Second,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConnsPerHost:    4,
		MaxResponseHeaderBytes: 64 << 10,
	}
	g := guard{policy: p, next: t, via: t}
	if p.Via != nil {
		g.via = p.Via(t)
	}
	return &http.Client{Transport: g, CheckRedirect: p.redirect}
}

// control runs between name resolution and connect(2): the last word.
func (p Policy) control(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q is not an address", ErrRefused, address)
	}
	return p.checkAddr(a)
}

func (p Policy) redirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d redirects", ErrRefused, maxRedirects)
	}
	if via[len(via)-1].URL.Scheme == "https" && r.URL.Scheme == "http" {
		return fmt.Errorf("%w: redirect from https to http", ErrRefused)
	}
	if err := p.checkURL(r.URL); err != nil {
		return fmt.Errorf("redirect: %w", err)
	}
	return nil
}

// guard checks each request, so that no use of the client can pass by.
type guard struct {
	policy Policy
	next   *http.Transport
	via    http.RoundTripper // leads to next
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.policy.checkURL(r.URL); err != nil {
		return nil, err
	}
	if r.Header.Get("Referer") != "" { // set on redirects, with the query that may sign the first URL
		r = r.Clone(r.Context())
		r.Header.Del("Referer")
	}
	return g.via.RoundTrip(r)
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (g guard) CloseIdleConnections() { g.next.CloseIdleConnections() }

// final reports errors that another try cannot heal.
func final(err error) bool {
	var se *StatusError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrChanged), errors.Is(err, ErrTooLarge), errors.As(err, &cert):
		return true
	case errors.As(err, &se):
		return se.Code < 500 && se.Code != http.StatusTooManyRequests && se.Code != http.StatusRequestTimeout
	}
	return false
}
