package dhcp

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

func TestMissingEndIsTolerated(t *testing.T) {
	p := message(t, dhcpv4.MessageTypeDiscover, enrolledMAC, raw(60, "PXEClient")).ToBytes()
	end := bytes.LastIndexByte(p, 255)
	got, err := parse(p[:end])
	if err != nil || got.ClassIdentifier() != "PXEClient" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parse(p[:200]); err == nil {
		t.Error("a packet cut in its fixed part was taken")
	}
}

func TestUnansweredPackets(t *testing.T) {
	tests := map[string]func(*dhcpv4.DHCPv4){
		"BOOTP":           func(d *dhcpv4.DHCPv4) { d.Options.Del(dhcpv4.OptionDHCPMessageType) },
		"a reply":         func(d *dhcpv4.DHCPv4) { d.OpCode = dhcpv4.OpcodeBootReply },
		"an offer":        func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeOffer)) },
		"hlen 0":          func(d *dhcpv4.DHCPv4) { d.ClientHWAddr = nil },
		"hlen 16":         func(d *dhcpv4.DHCPv4) { d.ClientHWAddr = make(net.HardwareAddr, 16) },
		"zero MAC":        func(d *dhcpv4.DHCPv4) { d.ClientHWAddr = make(net.HardwareAddr, 6) },
		"a multicast MAC": func(d *dhcpv4.DHCPv4) { d.ClientHWAddr = hw("01:00:5e:00:00:01") },
		"our own probe":   func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptClassIdentifier(vendorProbe)) },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, testConfig())
			m := message(t, dhcpv4.MessageTypeDiscover, enrolledMAC)
			spoil(m)
			if resp := b.ask(t, m); resp != nil {
				t.Errorf("got %s", resp.Summary())
			}
		})
	}
}

func TestDestination(t *testing.T) {
	peer := netip.MustParseAddrPort("10.9.0.50:4011")
	tests := []struct {
		name string
		port int
		req  func(*dhcpv4.DHCPv4)
		resp func(*dhcpv4.DHCPv4)
		want string
		mac  bool
	}{
		{"no broadcast flag: a frame", 67, nil, nil, "10.9.0.100:68", true},
		{"broadcast flag", 67, func(d *dhcpv4.DHCPv4) { d.SetBroadcast() }, nil, "255.255.255.255:68", false},
		{"renewing", 67, func(d *dhcpv4.DHCPv4) { d.ClientIPAddr = net.IPv4(10, 9, 0, 100) }, nil, "10.9.0.100:68", false},
		{"relayed", 67, func(d *dhcpv4.DHCPv4) { d.GatewayIPAddr = net.IPv4(10, 9, 0, 9) }, nil, "10.9.0.9:67", false},
		{"NAK", 67, nil, func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak)) }, "255.255.255.255:68", false},
		{"relayed NAK", 67, func(d *dhcpv4.DHCPv4) { d.GatewayIPAddr = net.IPv4(10, 9, 0, 9) }, func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak)) }, "10.9.0.9:67", false},
		{"proxy offer", 67, nil, func(d *dhcpv4.DHCPv4) { d.YourIPAddr = net.IPv4zero }, "255.255.255.255:68", false},
		{"InfiniBand", 67, func(d *dhcpv4.DHCPv4) { d.ClientHWAddr = nil }, nil, "255.255.255.255:68", false},
		{"port 4011: where it was asked from", 4011, func(d *dhcpv4.DHCPv4) { d.ClientIPAddr = net.IPv4(10, 9, 0, 50) }, nil, "10.9.0.50:4011", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := message(t, dhcpv4.MessageTypeDiscover, enrolledMAC)
			if tt.req != nil {
				tt.req(req)
			}
			resp, err := dhcpv4.NewReplyFromRequest(req, dhcpv4.WithMessageType(dhcpv4.MessageTypeOffer), dhcpv4.WithYourIP(net.IPv4(10, 9, 0, 100)))
			if err != nil {
				t.Fatal(err)
			}
			if tt.resp != nil {
				tt.resp(resp)
			}
			got := destination(req, resp, tt.port, peer)
			if got.to.String() != tt.want || (got.mac != nil) != tt.mac {
				t.Errorf("got %s %s, want %s (frame: %v)", got.to, got.mac, tt.want, tt.mac)
			}
		})
	}
}

func TestConcerns(t *testing.T) {
	b := newBench(t, testConfig())
	peer := func(s string) packet { return packet{port: 67, peer: netip.MustParseAddrPort(s)} }
	relay := func(ip string) dhcpv4.Modifier {
		return func(d *dhcpv4.DHCPv4) { d.GatewayIPAddr = net.ParseIP(ip) }
	}
	tests := []struct {
		name string
		req  *dhcpv4.DHCPv4
		p    packet
		want bool
	}{
		{"discover", message(t, dhcpv4.MessageTypeDiscover, enrolledMAC), peer("0.0.0.0:68"), true},
		{"relayed from our network", message(t, dhcpv4.MessageTypeDiscover, enrolledMAC, relay("10.9.0.9")), peer("10.9.0.9:67"), true},
		{"relayed from another network", message(t, dhcpv4.MessageTypeDiscover, enrolledMAC, relay("10.8.0.9")), peer("10.8.0.9:67"), false},
		{"release by the holder", message(t, dhcpv4.MessageTypeRelease, enrolledMAC, has("10.9.0.100")), peer("10.9.0.100:68"), true},
		{"release from elsewhere", message(t, dhcpv4.MessageTypeRelease, enrolledMAC, has("10.9.0.100")), peer("10.9.0.66:68"), false},
		{"inform from our network", message(t, dhcpv4.MessageTypeInform, enrolledMAC, has("10.9.0.100")), peer("10.9.0.100:68"), true},
		{"inform from a stranger", message(t, dhcpv4.MessageTypeInform, enrolledMAC, has("8.8.8.8")), peer("8.8.8.8:68"), false},
	}
	for _, tt := range tests {
		if got := b.concerns(tt.req, tt.p); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestDatagramChecksums(t *testing.T) {
	for _, data := range []string{"", "a", "ab", "abc"} {
		p := datagram(netip.MustParseAddrPort("10.9.0.1:67"), netip.MustParseAddrPort("10.9.0.100:68"), []byte(data))
		if got := checksum(p[:ipHeader], 0); got != 0 {
			t.Errorf("%q: header sums to %#x", data, got)
		}
		u := p[ipHeader:]
		pseudo := uint32(protoUDP) + uint32(len(u))
		for i := 12; i < 20; i += 2 {
			pseudo += uint32(binary.BigEndian.Uint16(p[i:]))
		}
		if got := checksum(u, pseudo); got != 0 {
			t.Errorf("%q: datagram sums to %#x", data, got)
		}
	}
}

func TestLimiterLeavesNodesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(Limits{PerMAC: 10, Unknown: 100})
		passed := 0
		for i := range 20000 {
			if l.allow(net.HardwareAddr{2, 0, 0, 0, byte(i >> 8), byte(i)}.String(), false) {
				passed++
			}
		}
		if passed > 401 {
			t.Errorf("%d packets of a flood of forged MACs passed, want the burst of 401", passed)
		}
		if !l.allow(enrolledMAC, true) {
			t.Error("a node's packet was dropped in a flood of others'")
		}
		for range 1000 {
			l.allow(enrolledMAC, true)
		}
		if l.allow(enrolledMAC, true) {
			t.Error("a flood from one MAC passed")
		}
		time.Sleep(time.Second)
		if !l.allow(enrolledMAC, true) || !l.allow("02:00:00:00:00:01", false) {
			t.Error("still limited after a second of silence")
		}
		if len(l.unknown) > maxLimited {
			t.Errorf("%d counters are kept", len(l.unknown))
		}
	})
}

func TestPanicCostsOnePacket(t *testing.T) {
	b := newBench(t, testConfig())
	b.booter.panic = true
	p := packet{data: message(t, dhcpv4.MessageTypeDiscover, enrolledMAC).ToBytes(), port: 67, peer: netip.MustParseAddrPort("0.0.0.0:68")}
	b.guard(func() { b.handle(t.Context(), nil, p) })
	b.booter.panic = false
	b.take(t, enrolledMAC)
}

// FuzzPacket sends whatever to the whole way from a datagram to a reply.
func FuzzPacket(f *testing.F) {
	for _, fw := range firmware {
		f.Add(message(f, dhcpv4.MessageTypeDiscover, enrolledMAC, fw.mods...).ToBytes(), true)
		f.Add(message(f, dhcpv4.MessageTypeRequest, "02:00:00:00:00:01", append(fw.mods, requested("10.9.0.118"))...).ToBytes(), false)
	}
	f.Add(message(f, dhcpv4.MessageTypeDecline, enrolledMAC, requested("10.9.0.100")).ToBytes(), true)
	f.Add(message(f, dhcpv4.MessageTypeRelease, enrolledMAC, has("10.9.0.100")).ToBytes(), true)
	f.Add(message(f, dhcpv4.MessageTypeInform, enrolledMAC, has("10.9.0.100")).ToBytes(), true)
	full := newBench(f, testConfig())
	cfg := testConfig()
	cfg.Mode = Proxy
	proxy := newBench(f, cfg)
	f.Fuzz(func(t *testing.T, data []byte, first bool) {
		if len(data) < minPacket {
			return
		}
		full.worthy(data)
		req, err := parse(data)
		if err != nil {
			return
		}
		b, port := full, portServer
		if !first {
			b, port = proxy, portProxy
		}
		resp, _ := b.answer(t.Context(), req, port)
		if resp == nil {
			return
		}
		if _, err := dhcpv4.FromBytes(resp.ToBytes()); err != nil {
			t.Errorf("reply cannot be parsed: %v", err)
		}
		if ip := addr(resp.YourIPAddr); ip.IsValid() && !full.table.known.contains(ip) && !full.table.unknown.contains(ip) {
			t.Errorf("gave %s, outside of the range", ip)
		}
		if len(resp.ToBytes()) > 1400 {
			t.Errorf("reply has %d bytes", len(resp.ToBytes()))
		}
		destination(req, resp, port, netip.MustParseAddrPort("10.9.0.50:68"))
	})
}
