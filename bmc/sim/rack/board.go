package rack

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"bessemer/bmc/sim"
	simipmi "bessemer/bmc/sim/ipmi"
)

// Protocols of controllers, which are the names of drivers too.
const (
	protocolRedfish = "redfish"
	protocolIPMI    = "ipmi"
	mixed           = "mixed"
)

// Ports of the controllers.
const (
	redfishPort = 8000
	ipmiPort    = 6230
)

// user is the name that every controller knows.
const user = "admin"

// A board is the management controller of a machine as the network sees it: an
// address, one protocol, one user.
type board struct {
	protocol string
	addr     netip.AddrPort
	password string
	tls      bool
	system   string // path of the machine in its Redfish service

	redfish http.Handler
	ipmi    *simipmi.Server
}

// newBoard makes a machine's controller, which is not on the network yet.
func newBoard(m *Machine) board {
	o := m.rack.opts
	b := board{protocol: protocolOf(m.rack.layout.BMC, m.profile, m.index), password: m.password(), tls: o.TLS, system: "/redfish/v1/Systems/" + m.Name()}
	port := uint16(redfishPort)
	if b.protocol == protocolIPMI {
		port = ipmiPort
	}
	b.addr = netip.AddrPortFrom(address(m.rack.network, m.index), port)
	if b.protocol == protocolIPMI {
		b.ipmi = simipmi.New(m.control, simipmi.Options{User: user, Password: b.password})
		return b
	}
	b.redfish = sim.NewRedfish(sim.RedfishOptions{
		User: user, Password: b.password, Delay: m.takes(m.profile.BMC),
		Controllers: func(sim.Machine) *sim.Controller { return m.control },
	}, m)
	return b
}

// password is the machine's own.
func (m *Machine) password() string {
	const letters = "abcdefghijkmnopqrstuvwxyz23456789"
	r := m.random("password")
	b := make([]byte, 12)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

func (b board) url() string {
	switch {
	case b.protocol == protocolIPMI:
		return "ipmi://" + b.addr.String()
	case b.tls:
		return "https://" + b.addr.String()
	default:
		return "http://" + b.addr.String()
	}
}

// driverInfo is what a driver needs to reach the controller.
func (b board) driverInfo() map[string]any {
	if b.protocol == protocolIPMI {
		return map[string]any{"ipmi_address": b.addr.Addr().String(), "ipmi_port": ipmiPort, "ipmi_username": user, "ipmi_password": b.password}
	}
	info := map[string]any{"redfish_address": b.url(), "redfish_system_id": b.system, "redfish_username": user, "redfish_password": b.password}
	if b.tls {
		info["redfish_verify_ca"] = false
	}
	return info
}

// open puts the controller of a machine on the network.
func (r *Rack) open(m *Machine) error {
	var err error
	if m.bmc.ipmi != nil {
		err = r.openIPMI(m)
	} else {
		err = r.openRedfish(m)
	}
	if err != nil {
		return fmt.Errorf("open controller of %s at %s: %w; if another rack runs on this host, let this one begin at another network", m.Name(), m.bmc.addr, err)
	}
	return nil
}

func (r *Rack) openIPMI(m *Machine) error {
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(m.bmc.addr))
	if err != nil {
		return err
	}
	r.serving.Go(func() {
		if err := m.bmc.ipmi.Serve(conn); err != nil && !errors.Is(err, net.ErrClosed) {
			m.log.Error().Err(err).Msg("simulated controller")
		}
	})
	return nil
}

func (r *Rack) openRedfish(m *Machine) error {
	ln, err := net.Listen("tcp4", m.bmc.addr.String())
	if err != nil {
		return err
	}
	r.serving.Go(func() {
		serve := r.http.Serve
		if m.bmc.tls {
			serve = func(ln net.Listener) error { return r.http.ServeTLS(ln, "", "") }
		}
		if err := serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			m.log.Error().Err(err).Msg("simulated controller")
		}
	})
	return nil
}

// ServeHTTP hands a request to the controller whose address it came in on: one
// server has the sockets of all.
func (r *Rack) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	at, ok := req.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		http.NotFound(w, req)
		return
	}
	r.mu.Lock()
	m := r.at(at.AddrPort().Addr().Unmap())
	r.mu.Unlock()
	if m == nil || m.bmc.redfish == nil {
		http.NotFound(w, req)
		return
	}
	m.bmc.redfish.ServeHTTP(w, req)
}
