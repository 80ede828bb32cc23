package server

import (
	"fmt"
	"net"
	"net/netip"

	"bessemer/configs"
	"bessemer/pxe/dhcp"
)

// A link is the network that machines boot from, as it is now.
type link struct {
	name   string
	addr   netip.Addr   // ours on it
	subnet netip.Prefix // masked
}

// simulated is the network of simulated machines. All of 127.0.0.0/8 is this
// host's, so that each machine has an address of its own, and reaches us at
// 127.0.0.1, without an interface and without privileges.
var simulated = link{configs.Simulated, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.MustParsePrefix("127.64.0.0/10")}

// simulatedControllers is where the controllers of simulated machines are.
var simulatedControllers = netip.MustParsePrefix("127.32.0.0/16")

func (l *link) simulated() bool { return l != nil && l.name == configs.Simulated }

// findLink looks up the provisioning interface. No interface is no link.
func findLink(p configs.Provisioning) (*link, error) {
	if p.Interface == "" {
		return nil, nil
	}
	if p.Interface == configs.Simulated {
		return &simulated, nil
	}
	ifc, err := net.InterfaceByName(p.Interface)
	if err != nil {
		return nil, fmt.Errorf("provisioning.interface: there is no %s; this host has %s", p.Interface, interfaceNames())
	}
	if ifc.Flags&net.FlagUp == 0 {
		return nil, fmt.Errorf("provisioning.interface: %s is down; bring it up: ip link set %s up", p.Interface, p.Interface)
	}
	addrs, err := ifc.Addrs()
	if err != nil {
		return nil, fmt.Errorf("read the addresses of %s: %w", p.Interface, err)
	}
	return chooseAddress(p, addrs)
}

func chooseAddress(p configs.Provisioning, addrs []net.Addr) (*link, error) {
	var have []string
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().Is4() {
			continue
		}
		if p.Address == "" || p.Address == prefix.Addr().String() {
			return &link{p.Interface, prefix.Addr(), prefix.Masked()}, nil
		}
		have = append(have, prefix.Addr().String())
	}
	if p.Address != "" {
		return nil, fmt.Errorf("provisioning.address: %s is not an address of %s; it has %v", p.Address, p.Interface, have)
	}
	return nil, fmt.Errorf("provisioning.interface: %s has no IPv4 address; give it one: ip address add 192.0.2.1/24 dev %s", p.Interface, p.Interface)
}

func interfaceNames() []string {
	var names []string
	ifcs, _ := net.Interfaces()
	for _, i := range ifcs {
		if i.Flags&net.FlagLoopback == 0 {
			names = append(names, i.Name)
		}
	}
	return names
}

// dhcpRange is the configured range, or the upper half of the link's network
// without our own address and the broadcast address.
func (l *link) dhcpRange(text string) (first, last netip.Addr, err error) {
	if text != "" {
		if first, last, err = configs.ParseRange(text); err != nil {
			return first, last, fmt.Errorf("dhcp.range: %w", err)
		}
		if !l.subnet.Contains(first) || !l.subnet.Contains(last) {
			return first, last, fmt.Errorf("dhcp.range: %s is not inside %s, the network of %s", text, l.subnet, l.name)
		}
		return first, last, nil
	}
	if l.subnet.Bits() > 29 {
		return first, last, fmt.Errorf("dhcp.range: %s is too small to give addresses from; set dhcp.range", l.subnet)
	}
	first, last = dhcp.UpperHalf(l.subnet)
	return first, last, nil
}
