package dhcp

import (
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// giveAddress is the plugin "bessemer-address": RFC 2131 section 4.3, for a
// server that is the only authority over its network.
func (s *Server) giveAddress(req, resp *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, bool) {
	x := s.exchange(req)
	if s.cfg.Mode == Proxy {
		s.watch(x, req)
		return resp, false
	}
	switch req.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		return s.onDiscover(x, req, resp)
	case dhcpv4.MessageTypeRequest:
		return s.onRequest(x, req, resp)
	case dhcpv4.MessageTypeInform:
		s.setNetwork(resp)
		return resp, false
	case dhcpv4.MessageTypeRelease:
		s.onRelease(x, req)
	case dhcpv4.MessageTypeDecline:
		s.onDecline(x, req)
	}
	return nil, true
}

func (s *Server) onDiscover(x *exchange, req, resp *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, bool) {
	ip, err := s.table.offer(x.client, addr(req.RequestedIPAddress()), time.Now())
	if err != nil {
		advice := s.fullAdvice(x.client)
		x.refused = "no free address: " + advice
		s.complain("full", "no free address for %s: %s", x.client.key, advice)
		return nil, true
	}
	s.setLease(resp, ip, s.table.time(x.client))
	return resp, false
}

func (s *Server) fullAdvice(c client) string {
	if c.enrolled {
		return "widen dhcp.range, " + s.cfg.First.String() + "-" + s.cfg.Last.String() + " is used up"
	}
	return "the part of the range for unknown machines is used up; it heals as their leases end, or enroll the machine"
}

// onRequest tells the four kinds of DHCPREQUEST apart (RFC 2131 table 4).
func (s *Server) onRequest(x *exchange, req, resp *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, bool) {
	server, asked, has := addr(req.ServerIdentifier()), addr(req.RequestedIPAddress()), addr(req.ClientIPAddr)
	switch {
	case server.IsValid() && server != s.cfg.Address: // SELECTING, but not us
		s.table.withdraw(x.client)
		s.foreign(server)
		return nil, true
	case asked.IsValid(): // SELECTING or INIT-REBOOT
		return s.bind(x, req, resp, asked)
	case has.IsValid(): // RENEWING or REBINDING
		return s.bind(x, req, resp, has)
	}
	return nil, true
}

func (s *Server) bind(x *exchange, req, resp *dhcpv4.DHCPv4, ip netip.Addr) (*dhcpv4.DHCPv4, bool) {
	_, err := s.table.bind(x.client, ip, printable([]byte(req.HostName())), time.Now())
	if err != nil {
		s.log.Debug().Str("mac", x.client.key).Stringer("ip", ip).Msg("refused: not this client's address")
		return s.refuse(req), true
	}
	s.setLease(resp, ip, s.table.time(x.client))
	return resp, false
}

// refuse is a NAK: no address, no boot answer. A relay has to broadcast it
// (RFC 2131 section 4.3.2).
func (s *Server) refuse(req *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	nak, err := dhcpv4.NewReplyFromRequest(req, dhcpv4.WithMessageType(dhcpv4.MessageTypeNak))
	if err != nil {
		return nil
	}
	setServer(req, nak, s.cfg.Address)
	nak.ServerIPAddr, nak.ClientIPAddr = netIP(netip.IPv4Unspecified()), netIP(netip.IPv4Unspecified())
	nak.UpdateOption(dhcpv4.OptMessage("not your address here"))
	nak.SetBroadcast()
	return nak
}

func (s *Server) onRelease(x *exchange, req *dhcpv4.DHCPv4) {
	l, err := s.table.release(x.client, addr(req.ClientIPAddr), time.Now())
	if err != nil {
		s.log.Debug().Str("mac", x.client.key).Stringer("ip", req.ClientIPAddr).Msg("release ignored: not this client's address")
		return
	}
	s.save(l, nil)
}

func (s *Server) onDecline(x *exchange, req *dhcpv4.DHCPv4) {
	ip := addr(req.RequestedIPAddress())
	l, err := s.table.decline(x.client, ip, time.Now())
	if err != nil {
		s.log.Debug().Str("mac", x.client.key).Stringer("ip", ip).Msg("decline ignored: not this client's address")
		return
	}
	s.complain("decline", "%s says that %s is used by another machine; it is not given for %s. Find that machine or change dhcp.range", x.client.key, ip, quarantine)
	s.save(l, nil)
}
