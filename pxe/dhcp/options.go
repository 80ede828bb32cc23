package dhcp

import (
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"bessemer/pxe"
)

// bootAnswer is what a client is told to boot: a name for TFTP or a URL; file
// "" means nothing, because there is nothing for its kind.
type bootAnswer struct {
	file  string
	class string // option 60 of the reply
}

// bootFor decides the boot answer of a client.
func bootFor(c client, base string, has func(string) bool) bootAnswer {
	if c.noBoot {
		return bootAnswer{}
	}
	nbp := c.arch.NBP()
	switch c.wants {
	case wantsScript:
		if c.mac != nil {
			return bootAnswer{file: pxe.ScriptURL(base, c.mac)}
		}
	case wantsURL:
		// The firmware drops an answer without its own class (quirk D-03).
		if nbp != "" && has(nbp) {
			return bootAnswer{pxe.NBPURL(base, nbp), vendorHTTP}
		}
	case wantsTFTP:
		// No class here: firmware that reads PXEClient in a full DHCP answer
		// looks for option 43 and ignores the file (quirk D-04).
		if nbp != "" && has(nbp) {
			return bootAnswer{file: nbp}
		}
	}
	return bootAnswer{}
}

// setBoot writes a boot answer into a reply. Firmware differs in whether it
// reads the fixed fields or options 66 and 67, so both are filled (D-13).
func setBoot(resp *dhcpv4.DHCPv4, b bootAnswer, ours netip.Addr) {
	if b.file == "" {
		return
	}
	resp.BootFileName = b.file
	resp.UpdateOption(dhcpv4.OptBootFileName(b.file))
	resp.UpdateOption(dhcpv4.OptTFTPServerName(ours.String()))
	if b.class != "" {
		resp.UpdateOption(dhcpv4.OptClassIdentifier(b.class))
	}
	// iPXE: 176 = 1, do not wait for a ProxyDHCP server; saves 2 s a boot.
	resp.UpdateOption(dhcpv4.OptGeneric(optionIPXE, []byte{176, 1, 1}))
}

// setLease writes an address and what belongs to it into a reply.
func (s *Server) setLease(resp *dhcpv4.DHCPv4, ip netip.Addr, d time.Duration) {
	resp.YourIPAddr = netIP(ip)
	resp.UpdateOption(dhcpv4.OptIPAddressLeaseTime(d))
	s.setNetwork(resp)
}

func (s *Server) setNetwork(resp *dhcpv4.DHCPv4) {
	resp.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(s.cfg.Subnet.Bits(), 32)))
	if s.cfg.Gateway.IsValid() {
		resp.UpdateOption(dhcpv4.OptRouter(netIP(s.cfg.Gateway)))
	}
	if len(s.cfg.DNS) > 0 {
		var dns []net.IP
		for _, ip := range s.cfg.DNS {
			dns = append(dns, netIP(ip))
		}
		resp.UpdateOption(dhcpv4.OptDNS(dns...))
	}
}

// setServer writes what every reply has: our address, and the options that
// must come back unchanged: the relay's (RFC 3046) and the machine's identity
// (RFC 4578).
func setServer(req, resp *dhcpv4.DHCPv4, ours netip.Addr) {
	resp.ServerIPAddr = netIP(ours)
	resp.UpdateOption(dhcpv4.OptServerIdentifier(netIP(ours)))
	for _, code := range []dhcpv4.OptionCode{dhcpv4.OptionRelayAgentInformation, dhcpv4.OptionClientMachineIdentifier} {
		if v := req.Options.Get(code); v != nil && len(v) <= 255 {
			resp.UpdateOption(dhcpv4.OptGeneric(code, v))
		}
	}
}

func netIP(ip netip.Addr) net.IP { return net.IP(ip.AsSlice()) }

// addr reads an address of a packet; the zero Addr stands for none.
func addr(ip net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(ip)
	if !ok || a.Unmap().IsUnspecified() {
		return netip.Addr{}
	}
	return a.Unmap()
}
