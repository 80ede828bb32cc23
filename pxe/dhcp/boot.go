package dhcp

import (
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"bessemer/pxe"
)

// giveBoot is the plugin "bessemer-boot": it adds what to boot.
func (s *Server) giveBoot(req, resp *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, bool) {
	x := s.exchange(req)
	b := bootFor(x.client, s.cfg.BaseURL, s.cfg.HasFile)
	if b.file == "" && x.client.wants != wantsNothing && !x.client.noBoot {
		s.complain("no boot program",
			"%s asks to boot as %q (%s), for which there is no boot program; put one into the ipxe directory of the data directory, or boot the node by virtual media",
			x.client.key, x.client.arch, x.client.vendor)
	}
	if s.cfg.Mode == Proxy {
		return s.proxyBoot(x, req, resp, b)
	}
	if b.file == "" || req.MessageType() == dhcpv4.MessageTypeInform {
		resp.ServerIPAddr = netIP(netip.IPv4Unspecified()) // no next-server where there is nothing to fetch
		return resp, true
	}
	setBoot(resp, b, s.cfg.Address)
	return resp, true
}

// proxyBoot makes the answer of a ProxyDHCP server: no address, and only to
// those that ask to boot (PXE specification 2.1, section 2.2). Some firmware
// takes the file from the offer, EDK2 asks port 4011 for it.
func (s *Server) proxyBoot(x *exchange, req, resp *dhcpv4.DHCPv4, b bootAnswer) (*dhcpv4.DHCPv4, bool) {
	t := req.MessageType()
	asks := t == dhcpv4.MessageTypeDiscover && x.port == portServer || t == dhcpv4.MessageTypeRequest && x.port == portProxy
	if !asks || b.file == "" {
		return nil, true
	}
	setBoot(resp, b, s.cfg.Address)
	if b.class == "" {
		resp.UpdateOption(dhcpv4.OptClassIdentifier(vendorPXE))
	}
	if x.client.arch == pxe.BIOS {
		// Suboption 6 = 8: do not search for boot servers, take the file named
		// here. UEFI must not see it: it would wait for a boot menu.
		resp.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{6, 1, 8, 255}))
	}
	resp.YourIPAddr = netIP(netip.IPv4Unspecified())
	return resp, true
}

// watch learns, beside another server, which address a machine has: from its
// broadcast REQUEST, or from its own address when it asks port 4011.
func (s *Server) watch(x *exchange, req *dhcpv4.DHCPv4) {
	if x.client.mac == nil || req.MessageType() != dhcpv4.MessageTypeRequest {
		return
	}
	ip := addr(req.ClientIPAddr)
	if !ip.IsValid() {
		ip = addr(req.RequestedIPAddress())
	}
	s.seen.learn(ip, x.client.mac)
}
