package dhcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

// Probe asks for an address on an interface, takes none, and returns the
// servers other than this host that offered one until ctx ended (or for
// 4 seconds, if it has no deadline). It needs CAP_NET_RAW.
func Probe(ctx context.Context, ifname string) ([]netip.Addr, error) {
	conn, err := nclient4.NewRawUDPConn(ifname, portClient)
	if err != nil {
		return nil, fmt.Errorf("probe for dhcp servers on %s: %w; %s", ifname, err, advice)
	}
	defer conn.Close()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(4 * time.Second)
	}
	_ = conn.SetReadDeadline(deadline)
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	discover, err := probeDiscover()
	if err != nil {
		return nil, fmt.Errorf("probe for dhcp servers on %s: %w", ifname, err)
	}
	if _, err := conn.WriteTo(discover.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: portServer}); err != nil {
		return nil, fmt.Errorf("probe for dhcp servers on %s: %w", ifname, err)
	}
	return collectOffers(conn, discover, localAddresses())
}

// probeDiscover asks as a machine that does not exist, by broadcast, since
// frames to its MAC would not reach us. Our own servers know it by its class.
func probeDiscover() (*dhcpv4.DHCPv4, error) {
	mac := make(net.HardwareAddr, 6)
	_, _ = rand.Read(mac)
	mac[0] = mac[0]&^1 | 2 // unicast, locally administered
	return dhcpv4.NewDiscovery(mac, dhcpv4.WithBroadcast(true), dhcpv4.WithOption(dhcpv4.OptClassIdentifier(vendorProbe)))
}

func collectOffers(conn net.PacketConn, discover *dhcpv4.DHCPv4, ours []netip.Addr) ([]netip.Addr, error) {
	var servers []netip.Addr
	buf := make([]byte, maxPacket)
	for {
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return servers, nil
		}
		if err != nil {
			return servers, fmt.Errorf("read offers: %w", err)
		}
		offer, err := parse(buf[:n])
		if err != nil || offer.TransactionID != discover.TransactionID || offer.OpCode != dhcpv4.OpcodeBootReply {
			continue
		}
		ip := addr(offer.ServerIdentifier())
		if u, ok := from.(*net.UDPAddr); ok && !ip.IsValid() {
			ip = addr(u.IP)
		}
		if ip.IsValid() && !slices.Contains(servers, ip) && !slices.Contains(ours, ip) {
			servers = append(servers, ip)
		}
	}
}

func localAddresses() []netip.Addr {
	var ours []netip.Addr
	as, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range as {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			ours = append(ours, p.Addr())
		}
	}
	return ours
}
