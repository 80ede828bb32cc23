package fetch

import "net/netip"

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")           // RFC 1122 3.2.1.3; Linux connects it to loopback
	ipv4Compat  = netip.MustParsePrefix("::/96")               // RFC 4291 2.5.5.1
	nat64       = netip.MustParsePrefix("64:ff9b::/96")        // RFC 6052 2.1
	sixToFour   = netip.MustParsePrefix("2002::/16")           // RFC 3056 2
	siteLocal   = netip.MustParsePrefix("fec0::/10")           // RFC 3879
	metadataV6  = netip.MustParseAddr("fd00:ec2::254")         // the IPv6 twin of 169.254.169.254
	broadcastV4 = netip.AddrFrom4([4]byte{255, 255, 255, 255}) // RFC 919 7
)

// special says what kind of address never holds an image, or "".
func special(ip netip.Addr) string {
	switch {
	case ip.IsUnspecified(), thisNetwork.Contains(ip):
		return "unspecified"
	case ip.IsLoopback():
		return "loopback"
	case ip.IsLinkLocalUnicast(), siteLocal.Contains(ip):
		return "link-local"
	case ip == metadataV6:
		return "a cloud's metadata service"
	case ip.IsMulticast(), ip == broadcastV4:
		return "multicast"
	}
	return ""
}

// unwrap returns an address together with the IPv4 address that it carries
// inside, if any: each of them must be allowed.
func unwrap(ip netip.Addr) []netip.Addr {
	if ip.Is4() {
		return []netip.Addr{ip}
	}
	if ip.Is4In6() {
		return []netip.Addr{ip.Unmap()}
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip), ipv4Compat.Contains(ip) && !ip.IsUnspecified() && !ip.IsLoopback():
		return []netip.Addr{ip, netip.AddrFrom4([4]byte(b[12:16]))}
	case sixToFour.Contains(ip):
		return []netip.Addr{ip, netip.AddrFrom4([4]byte(b[2:6]))}
	}
	return []netip.Addr{ip}
}
