package firmware

import (
	"bytes"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// An answer is what a machine learns from an OFFER or ACK.
type answer struct {
	lease Lease
	next  netip.Addr // next-server: the fixed field
	named netip.Addr // option 66, where it is an address
	file  string
	class string // option 60
}

// maxReply is what fits into a frame; ROMs take no fragments.
const maxReply = 1472

// read parses a reply and reports whether it is one to the request: to this
// machine and transaction, of a server, and with what a relay needs back.
func (m *machine) read(raw []byte, to *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, bool) {
	if len(raw) > maxReply {
		m.say("DHCP: reply of %d bytes dropped", len(raw))
		return nil, false
	}
	d, err := dhcpv4.FromBytes(raw)
	if err != nil || d.OpCode != dhcpv4.OpcodeBootReply || d.TransactionID != to.TransactionID || !bytes.Equal(d.ClientHWAddr, to.ClientHWAddr) {
		m.say("DHCP: unusable reply dropped")
		return nil, false
	}
	if info := to.Options.Get(dhcpv4.OptionRelayAgentInformation); info != nil &&
		(!bytes.Equal(info, d.Options.Get(dhcpv4.OptionRelayAgentInformation)) || !d.GatewayIPAddr.Equal(to.GatewayIPAddr)) {
		m.say("DHCP: the relay drops a reply without its own option 82")
		return nil, false
	}
	return d, true
}

// learn reads an answer. A file in option 67 counts before the fixed field, as
// it does for most firmware.
func learn(d *dhcpv4.DHCPv4) answer {
	a := answer{
		next:  ip(d.ServerIPAddr),
		class: string(d.Options.Get(dhcpv4.OptionClassIdentifier)),
		file:  text([]byte(d.BootFileName)),
		lease: Lease{IP: ip(d.YourIPAddr), Server: ip(d.ServerIdentifier()), For: d.IPAddressLeaseTime(0).Truncate(time.Second)},
	}
	if f := text(d.Options.Get(dhcpv4.OptionBootfileName)); f != "" {
		a.file = f
	}
	if n, err := netip.ParseAddr(text(d.Options.Get(dhcpv4.OptionTFTPServerName))); err == nil {
		a.named = n
	}
	bits, size := 8, 32
	if mask := d.SubnetMask(); mask != nil {
		bits, size = mask.Size()
	}
	if a.lease.IP.IsValid() && size == 32 {
		a.lease.Prefix = netip.PrefixFrom(a.lease.IP, bits).Masked()
	}
	return a
}

// text is a string field up to its NUL.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

func ip(raw net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(raw)
	if a = a.Unmap(); !ok || a.IsUnspecified() || !a.Is4() {
		return netip.Addr{}
	}
	return a
}

// server is where the boot file lies. Shim and its like know the fixed field
// alone (D-13).
func (m *machine) server(a answer) netip.Addr {
	if a.next.IsValid() || m.on("D-13") {
		return a.next
	}
	return a.named
}
