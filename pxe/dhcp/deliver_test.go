package dhcp

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"bessemer/store"
)

// wireConfig is that of an appliance whose machines are simulated: it is
// outside of their network.
func wireConfig() Config {
	c := testConfig()
	c.Interface, c.Address, c.BaseURL = "lo", netip.MustParseAddr("127.0.0.1"), "http://127.0.0.1:6386"
	c.First, c.Last, c.Subnet = netip.MustParseAddr("127.64.1.0"), netip.MustParseAddr("127.64.9.255"), netip.MustParsePrefix("127.64.0.0/10")
	c.Gateway, c.DNS, c.NoSockets = netip.Addr{}, nil, true
	return c
}

// runQuiet runs a server without sockets until stop is called.
func runQuiet(t *testing.T, s *Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (b *bench) deliver(t *testing.T, m *dhcpv4.DHCPv4, port int) *dhcpv4.DHCPv4 {
	t.Helper()
	raw, err := b.Deliver(t.Context(), m.ToBytes(), port)
	if err != nil {
		t.Fatal(err)
	}
	if raw == nil {
		return nil
	}
	d, err := dhcpv4.FromBytes(raw)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDeliver takes an address without sockets: the lease is in the store when
// the acknowledgement is there, and the exchange is in the trace.
func TestDeliver(t *testing.T) {
	b := newBench(t, wireConfig())
	if err := b.Open(); err != nil {
		t.Fatalf("opened sockets: %v", err)
	}
	defer runQuiet(t, b.Server)()
	offer := b.deliver(t, message(t, dhcpv4.MessageTypeDiscover, enrolledMAC), portServer)
	if offer == nil || !wireConfig().Subnet.Contains(addr(offer.YourIPAddr)) {
		t.Fatalf("offer %v", offer)
	}
	ack := b.deliver(t, message(t, dhcpv4.MessageTypeRequest, enrolledMAC, requested(offer.YourIPAddr.String()), server("127.0.0.1")), portServer)
	if ack == nil || ack.MessageType() != dhcpv4.MessageTypeAck {
		t.Fatalf("acknowledgement %v", ack)
	}
	err := b.db.View(func(tx *store.Tx) error {
		l, err := store.Leases.Get(tx, ack.YourIPAddr.String())
		if err == nil && (l.State != bound || l.MAC != enrolledMAC) {
			err = errors.New(l.State + " " + l.MAC)
		}
		return err
	})
	if err != nil {
		t.Errorf("lease in the store: %v", err)
	}
	if n := len(b.rec.Messages()); n != 4 {
		t.Errorf("%d messages recorded, want 4", n)
	}
}

// TestDeliverRefuses are packets that get no answer, and ports that are none.
func TestDeliverRefuses(t *testing.T) {
	b := newBench(t, wireConfig())
	defer runQuiet(t, b.Server)()
	foreign := message(t, dhcpv4.MessageTypeDiscover, enrolledMAC)
	foreign.GatewayIPAddr = []byte{10, 0, 0, 1}
	if got := b.deliver(t, foreign, portServer); got != nil {
		t.Errorf("a relay of another network got %v", got)
	}
	for name, p := range map[string][]byte{"empty": nil, "short": make([]byte, minPacket-1), "long": make([]byte, maxPacket)} {
		if got, err := b.Deliver(t.Context(), p, portServer); got != nil || err != nil {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if _, err := b.Deliver(t.Context(), make([]byte, 300), portServer); err == nil {
		t.Error("a packet without cookie is no error")
	}
	for _, port := range []int{68, portProxy} {
		if _, err := b.Deliver(t.Context(), make([]byte, 300), port); !errors.Is(err, ErrPort) {
			t.Errorf("port %d: %v", port, err)
		}
	}
	b.booter.panic = true
	if got, err := b.Deliver(t.Context(), message(t, dhcpv4.MessageTypeDiscover, enrolledMAC).ToBytes(), portServer); got != nil || err != nil {
		t.Errorf("with a booter that panics: %d bytes, %v", len(got), err)
	}
}

// TestDeliverAfterTheEnd acknowledges nothing that is not in the store.
func TestDeliverAfterTheEnd(t *testing.T) {
	b := newBench(t, wireConfig())
	stop := runQuiet(t, b.Server)
	offer := b.deliver(t, message(t, dhcpv4.MessageTypeDiscover, enrolledMAC), portServer)
	stop()
	request := message(t, dhcpv4.MessageTypeRequest, enrolledMAC, requested(offer.YourIPAddr.String()), server("127.0.0.1"))
	if got, err := b.Deliver(t.Context(), request.ToBytes(), portServer); got != nil || !errors.Is(err, errEnded) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// TestDeliverProxy answers port 4011 in proxy mode.
func TestDeliverProxy(t *testing.T) {
	c := wireConfig()
	c.Mode = Proxy
	b := newBench(t, c)
	defer runQuiet(t, b.Server)()
	ack := b.deliver(t, message(t, dhcpv4.MessageTypeRequest, enrolledMAC, raw(60, "PXEClient:Arch:00007:UNDI:003001"), raw(93, "\x00\x07"), has("127.64.1.9")), portProxy)
	if ack == nil || ack.BootFileName != "ipxe.efi" {
		t.Fatalf("got %v", ack)
	}
	if mac, ok := b.Owner(netip.MustParseAddr("127.64.1.9")); !ok || mac.String() != enrolledMAC {
		t.Errorf("owner of the asking address is %s", mac)
	}
}
