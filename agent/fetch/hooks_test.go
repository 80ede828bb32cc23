package fetch

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestLocalAndVia: connections come from the given address, requests pass the
// hook, and neither loosens the policy.
func TestLocalAndVia(t *testing.T) {
	from := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { from <- r.RemoteAddr }))
	defer s.Close()
	asked := 0
	p := loopback()
	p.Local = netip.MustParseAddr("127.77.0.1")
	p.Via = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { asked++; return next.RoundTrip(r) })
	}
	resp, err := p.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := netip.MustParseAddrPort(<-from).Addr(); got != p.Local || asked != 1 {
		t.Errorf("from %s, the hook was asked %d times", got, asked)
	}
	p.Allow = nil
	if _, err := p.Client().Get(s.URL); !errors.Is(err, ErrRefused) || asked != 1 {
		t.Errorf("loopback was not refused: %v, the hook was asked %d times", err, asked)
	}
	p.Via = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.URL.Host = s.Listener.Addr().String() // a hook that goes astray meets the check of the address
			return next.RoundTrip(r)
		})
	}
	if _, err := p.Client().Get("http://192.0.2.1/"); !errors.Is(err, ErrRefused) {
		t.Errorf("a hook led past the check at connecting: %v", err)
	}
}
