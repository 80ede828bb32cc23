package boot

import (
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"github.com/mdlayher/packet"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// wire puts this test's thread into a network namespace with "card", a cable
// that leads to "server" in another namespace, with the address 192.0.2.1.
// serve is called in that one.
func wire(t *testing.T, serve func()) (card netlink.Link) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and the namespaces with it
	machine, err := netns.New()
	if err != nil {
		t.Skipf("no network namespace: %v", err)
	}
	t.Cleanup(func() { machine.Close() })
	rack, err := netns.New()
	must(t, err)
	t.Cleanup(func() { rack.Close() })
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "card"}, PeerName: "server"}))
	card, err = netlink.LinkByName("card")
	must(t, err)
	server, err := netlink.LinkByName("server")
	must(t, err)
	must(t, netlink.LinkSetNsFd(card, int(machine)))
	must(t, netlink.AddrAdd(server, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)}}))
	must(t, netlink.LinkSetUp(server))
	serve()
	must(t, netns.Set(machine))
	card, err = netlink.LinkByName("card")
	must(t, err)
	must(t, netlink.LinkSetUp(card))
	return card
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serveDHCP gives 192.0.2.10 to whoever asks, and sends a broken frame before
// each answer (H16). deny makes it refuse.
func serveDHCP(t *testing.T, deny *atomic.Bool) {
	t.Helper()
	link, err := net.InterfaceByName("server")
	must(t, err)
	raw, err := packet.Listen(link, packet.Raw, unix.ETH_P_IP, nil)
	must(t, err)
	t.Cleanup(func() { raw.Close() })
	server := net.IPv4(192, 0, 2, 1)
	s, err := server4.NewServer("server", &net.UDPAddr{IP: net.IPv4zero, Port: 67}, func(conn net.PacketConn, peer net.Addr, m *dhcpv4.DHCPv4) {
		broken := append([]byte("\xff\xff\xff\xff\xff\xff"), link.HardwareAddr...)
		broken = append(broken, 0x08, 0x00, 0x45, 0, 0, 24, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 255, 255, 255, 255, 0, 67, 0, 68)
		_, _ = raw.WriteTo(broken, &packet.Addr{HardwareAddr: net.HardwareAddr{255, 255, 255, 255, 255, 255}})
		kind := dhcpv4.MessageTypeOffer
		if m.MessageType() == dhcpv4.MessageTypeRequest {
			kind = dhcpv4.MessageTypeAck
			if deny.Load() {
				kind = dhcpv4.MessageTypeNak
			}
		}
		answer, err := dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(net.IPv4(192, 0, 2, 10)),
			dhcpv4.WithServerIP(server), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(server)),
			dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithRouter(server), dhcpv4.WithLeaseTime(3600))
		if err != nil {
			return
		}
		if m.ClientIPAddr.IsUnspecified() {
			peer = &net.UDPAddr{IP: net.IPv4bcast, Port: 68}
		}
		_, _ = conn.WriteTo(answer.ToBytes(), peer)
	})
	must(t, err)
	ended := make(chan struct{})
	go func() { _ = s.Serve(); close(ended) }()
	t.Cleanup(func() { s.Close(); <-ended })
}

func TestLeaseOnAWire(t *testing.T) {
	var deny atomic.Bool
	card := wire(t, func() { serveDHCP(t, &deny) })
	l := &link{index: card.Attrs().Index, name: "card", mac: card.Attrs().HardwareAddr, boot: true}
	n := newNetwork(l.mac, false, func(f string, a ...any) { t.Logf(f, a...) })
	n.dns.path = t.TempDir() + "/resolv.conf"

	lease, err := acquire(t.Context(), l)
	must(t, err)
	s := readLease(lease.ACK)
	must(t, s.validate())
	must(t, n.apply(l, s))
	must(t, n.apply(l, s)) // again, as after a renewal
	addrs, err := netlink.AddrList(card, netlink.FAMILY_V4)
	must(t, err)
	if len(addrs) != 1 || addrs[0].IPNet.String() != "192.0.2.10/24" {
		t.Errorf("addresses are %v", addrs)
	}
	routes, err := netlink.RouteGet(net.IPv4(198, 51, 100, 1))
	must(t, err)
	if len(routes) != 1 || !routes[0].Gw.Equal(net.IPv4(192, 0, 2, 1)) || !routes[0].Src.Equal(net.IPv4(192, 0, 2, 10)) {
		t.Errorf("the way out is %v", routes)
	}

	for _, rebind := range []bool{false, true} { // by unicast, by broadcast
		next, err := extend(t.Context(), l, lease, rebind)
		must(t, err)
		if next.CreationTime.Before(lease.CreationTime) || time.Since(next.CreationTime) > time.Minute {
			t.Errorf("renewed lease is of %v", next.CreationTime)
		}
	}
	deny.Store(true)
	if _, err := extend(t.Context(), l, lease, true); err == nil {
		t.Error("a refused lease was renewed")
	}
	must(t, n.remove(l, s))
	if addrs, _ := netlink.AddrList(card, netlink.FAMILY_V4); len(addrs) != 0 {
		t.Errorf("addresses left: %v", addrs)
	}
}
