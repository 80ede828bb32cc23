//go:build linux

package hw

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"bessemer/agent/wire"
)

// A card is a network card as the kernel's netlink has it.
type card struct {
	name           string
	mac, permanent net.HardwareAddr
	carrier        bool
	ethernet       bool
	addresses      []*net.IPNet
}

// kernelCards asks the kernel for its links and their addresses.
func kernelCards() ([]card, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list network links: %w", err)
	}
	var cards []card
	for _, l := range links {
		a := l.Attrs()
		c := card{
			name: a.Name, mac: a.HardwareAddr, permanent: a.PermHWAddr,
			carrier: a.RawFlags&unix.IFF_LOWER_UP != 0, ethernet: a.EncapType == "ether" || a.EncapType == "infiniband",
		}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			continue // the card went away meanwhile
		}
		for _, ip := range addrs {
			c.addresses = append(c.addresses, ip.IPNet)
		}
		cards = append(cards, c)
	}
	return cards, nil
}

// interfaces lists the network cards; the kernel's own devices (lo, bridges)
// have no hardware behind them and are none.
func (m *Linux) interfaces() ([]wire.Interface, error) {
	cards, err := m.net()
	if err != nil {
		return nil, err
	}
	all := []wire.Interface{}
	for _, c := range cards {
		dir := m.path("sys/class/net", c.name)
		if device := filepath.Join(dir, "device"); c.ethernet && linkBase(device) != "" {
			all = append(all, m.describe(c, dir, device))
		}
	}
	slices.SortFunc(all, func(a, b wire.Interface) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (m *Linux) describe(c card, dir, device string) wire.Interface {
	i := wire.Interface{
		Name: c.name, MACAddress: c.address().String(), HasCarrier: c.carrier,
		Vendor: attr(device, "vendor"), Product: attr(device, "device"),
		Driver: linkBase(device, "driver"), PCIAddress: pciAddress(device),
	}
	if mbps, err := strconv.Atoi(attr(dir, "speed")); err == nil && mbps > 0 { // -1: unknown
		i.SpeedMbps = mbps
	}
	for _, ip := range c.addresses {
		switch {
		case ip.IP.IsLinkLocalUnicast():
		case ip.IP.To4() != nil && i.IPv4Address == "":
			i.IPv4Address = ip.IP.String()
		case ip.IP.To4() == nil && i.IPv6Address == "":
			i.IPv6Address = ip.IP.String()
		}
	}
	if m.o.LLDP != nil {
		i.LLDP = m.o.LLDP(c.name)
	}
	return i
}

// address is the one burnt into the card: a bond or a controller may have set
// another (quirk N-03).
func (c card) address() net.HardwareAddr {
	for _, b := range c.permanent {
		if b != 0 {
			return c.permanent
		}
	}
	return c.mac
}

// pciAddress finds the PCI device that a device is or hangs on: a virtio
// device is the child of one.
func pciAddress(device string) string {
	dir, err := filepath.EvalSymlinks(device)
	for err == nil && len(dir) > 1 {
		if linkBase(dir, "subsystem") == "pci" {
			return filepath.Base(dir)
		}
		dir = filepath.Dir(dir)
	}
	return ""
}
