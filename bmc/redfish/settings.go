package redfish

import (
	"net"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"bessemer/bmc"
)

// settings are a driver_info, understood.
type settings struct {
	origin             *url.URL // scheme and host with port, nothing else
	system             string   // path, bare identifier, or ""
	user, password     string
	auth               string // auto, session or basic
	trust              *trust
	connect            time.Duration
	requestTimeout     time.Duration
	retryFor, retryGap time.Duration // how long to repeat in all, and the first pause
	sessions           bmc.Sessions  // nil: they are not noted
}

func readSettings(t bmc.Target) (settings, error) {
	f := t.Fields()
	s := settings{
		origin:         readAddress(f),
		system:         readSystem(f),
		user:           f.String("redfish_username", ""),
		password:       f.String("redfish_password", ""),
		auth:           f.OneOf("redfish_auth_type", "auto", "auto", "session", "basic"),
		trust:          readTrust(f),
		connect:        t.ConnectTimeout,
		requestTimeout: time.Minute,
		retryFor:       30 * time.Second,
		retryGap:       500 * time.Millisecond,
		sessions:       t.Sessions,
	}
	if s.connect <= 0 {
		s.connect = 30 * time.Second
	}
	if s.password != "" && s.user == "" {
		f.Fault("redfish_username", "is missing, though redfish_password is set")
	}
	return s, f.Err()
}

// readAddress reads redfish_address. What may go wrong later is refused now:
// a user in the URL would land in logs, a path is not ours to choose.
func readAddress(f *bmc.Fields) *url.URL {
	raw := strings.TrimSpace(f.Required("redfish_address"))
	if raw == "" {
		return nil
	}
	const key = "redfish_address"
	u, err := url.Parse(withScheme(raw))
	switch {
	case err != nil || u.Hostname() == "":
		f.Fault(key, "is no address; write for example https://10.0.0.5 or https://[2001:db8::5]:8443")
	case u.User != nil:
		f.Fault(key, "must not contain a user or password; use redfish_username and redfish_password")
	case u.Scheme != "https" && u.Scheme != "http":
		f.Fault(key, "must begin with https:// or http://, not %s://", u.Scheme)
	case u.RawQuery != "" || u.Fragment != "" || !isRoot(u.Path):
		f.Fault(key, "must be a host and port without a path; the path of the machine goes into redfish_system_id")
	default:
		return &url.URL{Scheme: u.Scheme, Host: hostPort(u)}
	}
	return nil
}

// withScheme completes an address to a URL; an IPv6 address may stand without
// brackets.
func withScheme(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		scheme, rest = "https", raw
	}
	host, tail := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, tail = rest[:i], rest[i:]
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		host = "[" + strings.ReplaceAll(host, "%", "%25") + "]"
	}
	return strings.ToLower(scheme) + "://" + host + tail
}

func isRoot(p string) bool {
	p = strings.Trim(p, "/")
	return p == "" || p == "redfish" || p == "redfish/v1"
}

// hostPort returns the host of a URL in lower case with its port, the
// scheme's if it names none.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
		if u.Scheme == "http" {
			port = "80"
		}
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func readSystem(f *bmc.Fields) string {
	const key = "redfish_system_id"
	id := f.String(key, "")
	if id == "" {
		return ""
	}
	if strings.ContainsAny(id, "?#@\\ \t\r\n") || strings.Contains(id, "://") {
		f.Fault(key, "must be a path such as /redfish/v1/Systems/1, or an identifier, is %q", id)
		return ""
	}
	if strings.HasPrefix(id, "/") {
		return path.Clean(id)
	}
	return id
}
