//go:build linux

package lab

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"

	"bessemer/bmc/sim"
)

// Redfish serves our own Redfish service as the machine's controller, by TLS
// with a certificate of its own. The user in opts may be left empty for one
// that the returned BMC names.
func (l *Lab) Redfish(m sim.Machine, opts sim.RedfishOptions) (BMC, *sim.Redfish) {
	l.t.Helper()
	b := BMC{Addr: l.Controller(), Port: 443, User: opts.User, Password: opts.Password}
	if b.User == "" {
		b.User, b.Password = "admin", "redfish-secret"
		opts.User, opts.Password = b.User, b.Password
	}
	cert, text, err := sim.SelfSigned(net.IP(b.Addr.AsSlice()))
	if err != nil {
		l.t.Fatal(err)
	}
	b.CA = text
	lis, err := l.Listen(net.JoinHostPort(b.Addr.String(), strconv.Itoa(b.Port)))
	if err != nil {
		l.t.Fatalf("open the controller's socket: %v", err)
	}
	rf := sim.NewRedfish(opts, m)
	s := sim.Serve(lis, rf, cert)
	l.t.Cleanup(func() { _ = s.Close() })
	return b, rf
}

// ServeFiles serves the files of a directory by HTTP, as an image server does,
// and returns the URL that their names are put after.
func (l *Lab) ServeFiles(dir string) string { return l.Serve(http.FileServer(http.Dir(dir))) }

// Serve serves HTTP on the image server's address, which is on the
// provisioning network and not the appliance's, at a port of its own. It
// returns the URL of /.
func (l *Lab) Serve(h http.Handler) string {
	l.t.Helper()
	l.inside("addr", "replace", netip.PrefixFrom(imageServer, Network.Bits()).String(), "dev", Bridge)
	lis, err := l.Listen(net.JoinHostPort(imageServer.String(), "0"))
	if err != nil {
		l.t.Fatalf("open the image server's socket: %v", err)
	}
	s := sim.Serve(lis, h, nil)
	l.t.Cleanup(func() { _ = s.Close() })
	return "http://" + lis.Addr().String() + "/"
}

var imageServer = netip.MustParseAddr("192.0.2.2")
