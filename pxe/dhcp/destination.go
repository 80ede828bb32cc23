package dhcp

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// A target is where a reply goes: by UDP, or, when mac is set, in a frame of
// our own making, because the client cannot answer ARP for an address that it
// does not have yet.
type target struct {
	to  netip.AddrPort
	mac net.HardwareAddr
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// destination decides where a reply goes: RFC 2131 section 4.1, and for
// port 4011 the port that was asked from (EDK2 asks from 4011 itself).
func destination(req, resp *dhcpv4.DHCPv4, port int, peer netip.AddrPort) target {
	relay, has, yours := addr(req.GatewayIPAddr), addr(req.ClientIPAddr), addr(resp.YourIPAddr)
	switch {
	case port == portProxy:
		return target{to: peer}
	case relay.IsValid():
		return target{to: netip.AddrPortFrom(relay, portServer)}
	case resp.MessageType() == dhcpv4.MessageTypeNak:
		return target{to: netip.AddrPortFrom(broadcast, portClient)}
	case has.IsValid():
		return target{to: netip.AddrPortFrom(has, portClient)}
	case req.IsBroadcast(), len(req.ClientHWAddr) != 6, !yours.IsValid():
		return target{to: netip.AddrPortFrom(broadcast, portClient)}
	}
	return target{to: netip.AddrPortFrom(yours, portClient), mac: req.ClientHWAddr}
}

const (
	ipHeader  = 20
	udpHeader = 8
	protoUDP  = 17
)

// datagram is the IPv4 packet that carries data (RFC 791, RFC 768).
func datagram(from, to netip.AddrPort, data []byte) []byte {
	p := make([]byte, ipHeader+udpHeader+len(data))
	src, dst := from.Addr().As4(), to.Addr().As4()
	p[0] = 0x45 // version 4, five words
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	p[8] = 64 // TTL
	p[9] = protoUDP
	copy(p[12:16], src[:])
	copy(p[16:20], dst[:])
	binary.BigEndian.PutUint16(p[10:], checksum(p[:ipHeader], 0))
	u := p[ipHeader:]
	binary.BigEndian.PutUint16(u[0:], from.Port())
	binary.BigEndian.PutUint16(u[2:], to.Port())
	binary.BigEndian.PutUint16(u[4:], uint16(len(u)))
	copy(u[udpHeader:], data)
	pseudo := uint32(protoUDP) + uint32(len(u))
	for i := 12; i < 20; i += 2 {
		pseudo += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	sum := checksum(u, pseudo)
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(u[6:], sum)
	return p
}

func checksum(b []byte, sum uint32) uint16 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
