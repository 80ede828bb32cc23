package dhcp

import (
	"context"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"bessemer/pxe"
	"bessemer/store"
)

// An exchange is one packet and what is known about it: what a coredhcp
// handler, which gets no more than request and reply, finds by the request.
type exchange struct {
	ctx    context.Context
	port   int // ours: 67 or 4011
	client client
	boot   pxe.Boot
	begun  time.Time
	seq    uint64 // of the recorded request
	leased bool   // the reply acknowledges an address
	// refused is why there is no reply, where that is for people to mend.
	refused string
}

const (
	portServer = 67
	portClient = 68
	portProxy  = 4011
)

// Answer returns the reply to a request that came to the given port of ours (67
// or 4011), or nil for none. It is what the socket loop calls; leases of its
// acknowledgements are not yet in the store.
func (s *Server) Answer(ctx context.Context, req *dhcpv4.DHCPv4, port int) *dhcpv4.DHCPv4 {
	resp, _ := s.answer(ctx, req, port)
	return resp
}

func (s *Server) answer(ctx context.Context, req *dhcpv4.DHCPv4, port int) (*dhcpv4.DHCPv4, *exchange) {
	c, ok := identify(req)
	if !ok || req.OpCode != dhcpv4.OpcodeBootRequest || c.vendor == vendorProbe {
		return nil, nil
	}
	resp, err := s.blank(req)
	if err != nil || resp == nil {
		return nil, nil
	}
	x := &exchange{ctx: ctx, port: port, client: c, begun: time.Now()}
	s.enroll(&x.client)
	s.askBooter(x, req)
	s.exchanges.Store(req, x)
	defer s.exchanges.Delete(req)
	s.recordRequest(x, req)
	stop := false
	for _, h := range s.handlers {
		if resp, stop = h(req, resp); stop || resp == nil {
			break
		}
	}
	if resp == nil {
		s.turnAway(x, req)
		return nil, x
	}
	x.leased = resp.MessageType() == dhcpv4.MessageTypeAck && addr(resp.YourIPAddr).IsValid()
	return resp, x
}

// blank is the reply that the handlers fill in; nil for a message that is
// not for a server.
func (s *Server) blank(req *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	var t dhcpv4.MessageType
	switch req.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		t = dhcpv4.MessageTypeOffer
	case dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeInform, dhcpv4.MessageTypeRelease, dhcpv4.MessageTypeDecline:
		t = dhcpv4.MessageTypeAck
	default:
		return nil, nil
	}
	resp, err := dhcpv4.NewReplyFromRequest(req, dhcpv4.WithMessageType(t))
	if err != nil {
		return nil, err
	}
	setServer(req, resp, s.cfg.Address)
	return resp, nil
}

// enroll adds what the store knows of a client.
func (s *Server) enroll(c *client) {
	if c.mac == nil {
		return
	}
	p, ok, err := s.ports.find(c.key)
	if err != nil {
		s.log.Error().Err(err).Msg("treating the machine as unknown")
		return
	}
	c.enrolled, c.node, c.noBoot = ok, p.node, ok && !p.pxe
}

// askBooter asks what the machine is to boot, which also makes an unknown
// machine discovered and says on whose behalf the packets are.
func (s *Server) askBooter(x *exchange, req *dhcpv4.DHCPv4) {
	t := req.MessageType()
	if x.client.mac == nil || t != dhcpv4.MessageTypeDiscover && t != dhcpv4.MessageTypeRequest {
		return
	}
	m := x.client.machine("DHCP " + t.String())
	if l, ok := s.lease(x.client.key); ok {
		m.IP = netIP(l)
	} else if ip := addr(req.ClientIPAddr); ip.IsValid() {
		m.IP = netIP(ip)
	}
	x.boot = s.booter.Boot(x.ctx, m)
	x.ctx = store.WithScope(x.ctx, store.Scope{Trace: x.boot.Trace, Node: x.boot.Node, Run: x.boot.Run})
}

// machine is the client as a booter is told of it.
func (c client) machine(what string) pxe.Machine {
	return pxe.Machine{MAC: c.mac, UUID: c.uuid, Arch: c.arch, VendorClass: c.vendor, UserClass: c.user, What: what}
}

// turnAway makes known why an enrolled machine gets no answer: in its trace, and
// to the booter, who will be asked why the machine does not boot.
func (s *Server) turnAway(x *exchange, req *dhcpv4.DHCPv4) {
	if x.refused == "" || x.boot.Node == "" {
		return
	}
	s.booter.Boot(x.ctx, x.client.machine("DHCP "+req.MessageType().String()+", left without an answer: "+x.refused))
	if x.seq == 0 {
		return
	}
	s.rec.Record(x.ctx, store.Message{
		Node: x.boot.Node, From: store.DHCP, To: store.NodeP, Kind: store.Reply, Label: arrows[req.MessageType()], ReplyTo: x.seq,
		Dur: time.Since(x.begun), Outcome: store.Failed, Error: x.refused,
	})
}

func (s *Server) lease(key string) (netip.Addr, bool) {
	if s.table == nil {
		return netip.Addr{}, false
	}
	l, ok := s.table.of(key, time.Now())
	return l.ip, ok
}

// exchange finds the exchange that a handler is called for.
func (s *Server) exchange(req *dhcpv4.DHCPv4) *exchange {
	x, _ := s.exchanges.Load(req)
	return x.(*exchange)
}
