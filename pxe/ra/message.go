package ra

import (
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/bpf"
)

// ICMPv6 types (RFC 4861).
const (
	solicitation  = 133
	advertisement = 134
)

const (
	ipHeader  = 40
	nextAt    = 6
	hopsAt    = 7
	protoICMP = 58
	raLength  = 16
	rsLength  = 8
)

// wanted passes the solicitations and advertisements of the segment; the
// socket's data begin at the IPv6 header.
var wanted = []bpf.Instruction{
	bpf.LoadAbsolute{Off: nextAt, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protoICMP, SkipTrue: 4},
	bpf.LoadAbsolute{Off: ipHeader, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpLessThan, Val: solicitation, SkipTrue: 2},
	bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: advertisement, SkipTrue: 1},
	bpf.RetConstant{Val: maxFrame},
	bpf.RetConstant{Val: 0},
}

type message struct {
	kind     byte
	from     netip.Addr
	lifetime time.Duration // of an advertisement
}

// parse reads an IPv6 packet and checks what RFC 4861 sections 6.1.1 and 6.1.2
// want checked: a hop limit of 255 proves that it comes from this link.
func parse(p []byte) (message, bool) {
	if len(p) < ipHeader+rsLength || p[0]>>4 != 6 || p[nextAt] != protoICMP || p[hopsAt] != 255 {
		return message{}, false
	}
	n := int(binary.BigEndian.Uint16(p[4:]))
	if n < rsLength || ipHeader+n > len(p) {
		return message{}, false
	}
	p = p[:ipHeader+n]
	m := message{kind: p[ipHeader], from: netip.AddrFrom16([16]byte(p[8:24]))}
	if p[ipHeader+1] != 0 || sum(p) != 0 {
		return message{}, false
	}
	switch {
	case m.kind == advertisement && n >= raLength && m.from.IsLinkLocalUnicast():
		m.lifetime = time.Duration(binary.BigEndian.Uint16(p[ipHeader+6:])) * time.Second
		return m, true
	case m.kind == solicitation:
		return m, true
	}
	return message{}, false
}

// empty is an advertisement to all nodes that says nothing.
func empty(from netip.Addr) []byte {
	p := make([]byte, ipHeader+raLength)
	p[0] = 6 << 4
	binary.BigEndian.PutUint16(p[4:], raLength)
	p[nextAt], p[hopsAt] = protoICMP, 255
	src, dst := from.As16(), allNodes.As16()
	copy(p[8:], src[:])
	copy(p[24:], dst[:])
	p[ipHeader] = advertisement
	binary.BigEndian.PutUint16(p[ipHeader+2:], sum(p))
	return p
}

// sum is the ICMPv6 checksum of a packet (RFC 8200 section 8.1): over a right
// one it is zero.
func sum(p []byte) uint16 {
	s := uint32(len(p)-ipHeader) + protoICMP
	for b := p[8:]; len(b) > 0; {
		if len(b) == 1 {
			s += uint32(b[0]) << 8
			break
		}
		s += uint32(b[0])<<8 | uint32(b[1])
		b = b[2:]
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

// linkLocal is the interface's link-local address, or the one that it would
// have (RFC 4291 appendix A) where the host has no IPv6.
func linkLocal(ifi *net.Interface) netip.Addr {
	as, err := ifi.Addrs()
	if err == nil {
		for _, a := range as {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
				return p.Addr().WithZone("")
			}
		}
	}
	m := ifi.HardwareAddr
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
}
