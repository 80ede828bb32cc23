package pxe_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"

	"bessemer/pxe"
	"bessemer/pxe/dhcp"
)

// proxy asks as EDK2 does: port 4011, from port 4011, with the address that
// another server gave.
func (r *rack) proxy(t *testing.T) {
	r.ip("link add br1 type bridge forward_delay 0")
	defer r.ip("link del br1")
	r.ip("addr add 10.8.0.1/24 dev br1")
	r.ip("link add s2 type veth peer name c2")
	r.ip("link set s2 master br1 up")
	r.ip("link set br1 up")
	r.ip("link set c2 up")
	cfg := rackConfig()
	cfg.Interface, cfg.Address, cfg.Mode, cfg.BaseURL = "br1", netip.MustParseAddr("10.8.0.1"), dhcp.Proxy, "http://10.8.0.1:6386"
	s := r.newDHCP(cfg)
	defer start(t, s)()
	c, err := nclient4.New("c2", nclient4.WithTimeout(time.Second), nclient4.WithHWAddr(parseMAC(nodeA)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pxeClient := dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00007:UNDI:003001"))
	offer, err := c.DiscoverOffer(t.Context(), pxeClient)
	if err != nil {
		t.Fatal(err)
	}
	if !offer.YourIPAddr.IsUnspecified() || offer.ClassIdentifier() != "PXEClient" || offer.BootFileName != pxe.NBPX64 {
		t.Errorf("got offer %s", offer.Summary())
	}
	r.ip("link set c2 netns " + strconv.Itoa(r.pid))
	r.client("ip", "link", "set", "c2", "up")
	r.client("ip", "addr", "add", "10.8.0.77/24", "dev", "c2")
	out := r.client(os.Args[0], "-test.run=^TestAsk4011$", "-test.v")
	if !strings.Contains(out, "from 10.8.0.1:4011 ACK ipxe.efi") {
		t.Errorf("asked port 4011: %s", out)
	}
	if mac, ok := s.Owner(netip.MustParseAddr("10.8.0.77")); !ok || mac.String() != nodeA {
		t.Errorf("owner of the asking address is %s", mac)
	}
}

// TestAsk4011 is run by the proxy test, in the clients' namespace.
func TestAsk4011(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		t.Skip("run by TestWithRealClients")
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(10, 8, 0, 77), Port: 4011})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithHwAddr(parseMAC(nodeA)), dhcpv4.WithClientIP(net.IPv4(10, 8, 0, 77)),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00007:UNDI:003001")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.WriteToUDP(m.ToBytes(), &net.UDPAddr{IP: net.IPv4(10, 8, 0, 1), Port: 4011}); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second))
	buf := make([]byte, 2000)
	n, from, err := conn.ReadFromUDP(buf)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := dhcpv4.FromBytes(buf[:n])
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("from", from, resp.MessageType(), resp.BootFileNameOption())
}
