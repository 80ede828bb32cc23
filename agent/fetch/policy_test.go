package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

func TestCheck(t *testing.T) {
	p := Policy{
		Deny:      []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
		DenyPorts: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:6385")},
		Allow:     []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32"), netip.MustParsePrefix("203.0.113.7/32")},
	}
	for _, tt := range []struct{ url, why string }{
		{"http://images.example/a.img", ""},
		{"HTTPS://images.example:8443/a.img?sig=1#x", ""},
		{"http://10.0.0.1/a.img", ""},
		{"http://192.168.1.1:80/", ""},
		{"http://[fd00::1]/", ""},
		{"http://127.0.0.9/", ""},
		{"http://192.0.2.1/", ""},
		{"http://xn--bcher-kva.example/", ""},
		{"http://a_b.example./x", ""},
		{"http://192.0.2.1:6385/v1/nodes", "listener"},
		{"http://203.0.113.7/", "denied"},
		{"http://127.0.0.1/", "loopback"},
		{"http://127.8.8.8:9/", "loopback"},
		{"http://[::1]/", "loopback"},
		{"http://[::ffff:127.0.0.1]/", "loopback"},
		{"http://[::127.0.0.1]/", "loopback"},
		{"http://[64:ff9b::7f00:1]/", "loopback"},
		{"http://[2002:7f00:1::]/", "loopback"},
		{"http://localhost/", "loopback"},
		{"http://LocalHost./", "loopback"},
		{"http://x.localhost/", "loopback"},
		{"http://%6c%6fcalhost/", "not a URL"},
		{"http://169.254.169.254/latest/meta-data", "link-local"},
		{"http://[fe80::1]/", "link-local"},
		{"http://[fe80::1%25eth0]/", "zone"},
		{"http://[fd00:ec2::254]/", "metadata"},
		{"http://0.0.0.0/", "unspecified"},
		{"http://0.1.2.3/", "unspecified"},
		{"http://[::]/", "unspecified"},
		{"http://224.0.0.1/", "multicast"},
		{"http://255.255.255.255/", "multicast"},
		{"http://[ff02::1]/", "multicast"},
		{"http://2130706433/", "not a host name"},
		{"http://0x7f000001/", "not a host name"},
		{"http://0x7f.1/", "not a host name"},
		{"http://127.1/", "not a host name"},
		{"http://0177.0.0.1/", "not a host name"},
		{"http://127.0.0.1./", "not a host name"},
		{"http://①②⑦.0.0.1/", "not a host name"},
		{"http://a..b/", "not a host name"},
		{"http://user:secret@images.example/", "password"},
		{"http://127.0.0.1@images.example/", "password"},
		{"file:///etc/shadow", "scheme"},
		{"FILE:///etc/shadow", "scheme"},
		{"file:/etc/shadow", "scheme"},
		{"//images.example/x", "scheme"},
		{"/etc/shadow", "scheme"},
		{"", "scheme"},
		{"fd:3", "scheme"},
		{"gopher://images.example/", "scheme"},
		{"ftp://images.example/", "scheme"},
		{"glance://7", "scheme"},
		{"http:images.example", "no host"},
		{"http:///x", "no host"},
		{"http://images.example:0/", "port"},
		{"http://images.example:99999/", "port"},
		{"http://images.example:/", "port"},
		{"http://ima ges/", "not a URL"},
		{"http://images.example/\r\nX: y", "not a URL"},
	} {
		_, err := p.Check(tt.url)
		switch {
		case tt.why == "" && err != nil:
			t.Errorf("%q: %v, want no error", tt.url, err)
		case tt.why != "" && err == nil:
			t.Errorf("%q was allowed, want refusal: %s", tt.url, tt.why)
		case tt.why != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.why)):
			t.Errorf("%q: %v, want ErrRefused with %q", tt.url, err, tt.why)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the password: %v", tt.url, err)
		}
	}
}

// internal is a listener that must never be reached; it counts who does.
func internal(t *testing.T) (*httptest.Server, *atomic.Int32) {
	var hits atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			hits.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s, &hits
}

func TestRedirectsAreChecked(t *testing.T) {
	secret, hits := internal(t)
	port := secret.Listener.Addr().(*net.TCPAddr).Port
	own := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port))
	var to string
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to, http.StatusFound)
	}))
	defer front.Close()
	p := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, DenyPorts: []netip.AddrPort{own}}
	for _, to = range []string{
		secret.URL, "http://169.254.169.254/", "file:///etc/passwd", "http://127.0.0.2/",
		strings.Replace(secret.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1),
		strings.Replace(secret.URL, "127.0.0.1", "localhost", 1),
		strings.Replace(secret.URL, "http://", "http://u:p@", 1),
	} {
		_, err := Open(t.Context(), p.Client(), front.URL, Limits{Backoff: 1})
		if !errors.Is(err, ErrRefused) {
			t.Errorf("redirect to %s: %v, want ErrRefused", to, err)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the internal listener had %d connections, want 0", n)
	}
}

func TestRedirectLimitAndDowngrade(t *testing.T) {
	var loop *httptest.Server
	var requests atomic.Int32
	loop = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, loop.URL, http.StatusFound)
	}))
	defer loop.Close()
	p := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Insecure: true}
	if _, err := Open(t.Context(), p.Client(), loop.URL, Limits{}); !errors.Is(err, ErrRefused) || requests.Load() != maxRedirects+1 {
		t.Errorf("endless redirects: %v after %d requests, want ErrRefused after %d", err, requests.Load(), maxRedirects+1)
	}
	secure := httptest.NewTLSServer(http.RedirectHandler(loop.URL, http.StatusFound))
	defer secure.Close()
	requests.Store(0)
	if _, err := Open(t.Context(), p.Client(), secure.URL, Limits{}); !errors.Is(err, ErrRefused) || requests.Load() != 0 {
		t.Errorf("redirect from https to http: %v, %d requests; want ErrRefused, none", err, requests.Load())
	}
}

// A name that passes the check of its text must still fail when it resolves
// to a refused address: DNS rebinding.
func TestAddressIsCheckedWhenConnecting(t *testing.T) {
	secret, hits := internal(t)
	_, port, _ := net.SplitHostPort(secret.Listener.Addr().String())
	c := Policy{}.Client()
	c.Transport.(guard).next.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		d := &net.Dialer{Control: Policy{}.control} // what the resolver would answer the second time
		return d.DialContext(ctx, network, "127.0.0.1:"+port)
	}
	if _, err := Open(t.Context(), c, "http://images.example/", Limits{}); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want ErrRefused", err)
	}
	if hits.Load() != 0 {
		t.Error("the internal listener was connected to")
	}
}

func TestClientGuardsEveryRequest(t *testing.T) {
	secret, hits := internal(t)
	_, err := Policy{}.Client().Get(secret.URL)
	if !errors.Is(err, ErrRefused) || hits.Load() != 0 {
		t.Errorf("got %v and %d connections, want ErrRefused and 0", err, hits.Load())
	}
}

func TestDenyPortOfUnspecifiedAddress(t *testing.T) {
	p := Policy{
		Allow:     []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		DenyPorts: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:6385")},
	}
	if _, err := p.Check("http://127.0.0.1:6385/"); !errors.Is(err, ErrRefused) {
		t.Errorf("own listener: %v, want ErrRefused", err)
	}
	for _, u := range []string{"http://127.0.0.1:6386/", "http://192.0.2.77:6385/"} {
		if _, err := p.Check(u); err != nil {
			t.Errorf("%s: %v, want no error", u, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{"http://a/", "http://[::1]:1/", "http://127.1", "https://a@b:1/%00", "http://%31"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := Policy{}.Check(raw)
		if err != nil {
			return
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Hostname() == "" {
			t.Errorf("%q was allowed", raw)
		}
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast()) {
			t.Errorf("%q was allowed", raw)
		}
		if _, err := url.Parse(u.String()); err != nil {
			t.Errorf("%q does not survive printing", raw)
		}
	})
}
