package fetch

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// A Policy says which addresses may be asked. The zero value refuses loopback,
// link-local (with it 169.254.169.254), multicast and unspecified addresses,
// also when they are wrapped in IPv6; everything else is allowed, private
// networks too, since that is where images lie.
type Policy struct {
	Allow     []netip.Prefix   // exceptions from the default refusals
	Deny      []netip.Prefix   // refused in any case
	DenyPorts []netip.AddrPort // own listeners, refused in any case; an unspecified address means all addresses of this host

	Roots    *x509.CertPool // who may sign servers' certificates; nil: the system's
	Insecure bool           // do not check servers' certificates

	// Local is the address that connections come from; the zero Addr leaves
	// that to the system. Simulated machines share a host, and each uses its
	// own.
	Local netip.Addr
	// Via, if set, is put between the policy's checks of a request and the
	// network; the check of each address at the moment of connecting stays.
	// Simulated machines break their downloads with it.
	Via func(http.RoundTripper) http.RoundTripper
}

// LocalAddr is Local as a dialer wants it: nil for none.
func (p Policy) LocalAddr() net.Addr {
	if !p.Local.IsValid() {
		return nil
	}
	return &net.TCPAddr{IP: p.Local.AsSlice()}
}

// Check parses a URL and refuses what we would not ask, without any I/O: other
// schemes than http and https, credentials, hosts that are neither a name nor
// a plain IP address, and addresses that the policy refuses.
func (p Policy) Check(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: not a URL", ErrRefused) // the cause would repeat the text, and with it a password
	}
	if err := p.checkURL(u); err != nil {
		return nil, err
	}
	return u, nil
}

func (p Policy) checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%w: scheme %q is not http or https", ErrRefused, u.Scheme)
	case u.Opaque != "" || u.Host == "":
		return fmt.Errorf("%w: the URL names no host", ErrRefused)
	case u.User != nil:
		return fmt.Errorf("%w: a user or password in the URL of %s would end up in logs", ErrRefused, u.Hostname())
	}
	port, err := portOf(u)
	if err != nil {
		return err
	}
	host := u.Hostname()
	if ip, err := netip.ParseAddr(host); err == nil {
		return p.checkAddr(netip.AddrPortFrom(ip, port))
	}
	return p.checkName(host)
}

// checkName refuses names that some resolvers take for an address (127.1,
// 0x7f000001, 2130706433) and those that mean this machine.
func (p Policy) checkName(host string) error {
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	if !isHostname(name) {
		return fmt.Errorf("%w: %q is not a host name or an IP address", ErrRefused, host)
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return p.checkAddr(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0))
	}
	return nil
}

func isHostname(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	last := labels[len(labels)-1]
	_, err := strconv.ParseUint(last, 0, 64)
	return err != nil && strings.Trim(last, "0123456789") != ""
}

func portOf(u *url.URL) (uint16, error) {
	if u.Port() == "" {
		if strings.HasSuffix(u.Host, ":") {
			return 0, fmt.Errorf("%w: %q has an empty port", ErrRefused, u.Host)
		}
		return map[string]uint16{"http": 80, "https": 443}[u.Scheme], nil
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%w: %q is not a port", ErrRefused, u.Port())
	}
	return uint16(n), nil
}

// checkAddr is the whole decision about one address; port 0 stands for a port
// not yet known.
func (p Policy) checkAddr(a netip.AddrPort) error {
	if a.Addr().Zone() != "" {
		return fmt.Errorf("%w: %s has a zone", ErrRefused, a.Addr())
	}
	for _, ip := range unwrap(a.Addr()) {
		if why := p.refusal(netip.AddrPortFrom(ip, a.Port())); why != "" {
			return fmt.Errorf("%w: %s is %s", ErrRefused, a.Addr(), why)
		}
	}
	return nil
}

// refusal says why an address is refused, or "".
func (p Policy) refusal(a netip.AddrPort) string {
	for _, d := range p.DenyPorts {
		if d.Port() == a.Port() && (d.Addr().Unmap() == a.Addr() || d.Addr().IsUnspecified() && isOwn(a.Addr())) {
			return "a listener of this service"
		}
	}
	if contains(p.Deny, a.Addr()) {
		return "denied by configuration"
	}
	if contains(p.Allow, a.Addr()) {
		return ""
	}
	return special(a.Addr())
}

func contains(ps []netip.Prefix, ip netip.Addr) bool {
	for _, p := range ps {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// isOwn reports whether an address is one of this host's.
func isOwn(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	as, err := net.InterfaceAddrs()
	if err != nil {
		return true // not knowing is no reason to allow
	}
	for _, a := range as {
		if n, ok := a.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == ip {
				return true
			}
		}
	}
	return false
}
