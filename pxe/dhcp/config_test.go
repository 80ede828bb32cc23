package dhcp

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"bessemer/store/storetest"
)

func TestConfigFaults(t *testing.T) {
	tests := map[string]func(*Config){
		"mode":         func(c *Config) { c.Mode = "both" },
		"no interface": func(c *Config) { c.Interface = "" },
		"is not IPv4":  func(c *Config) { c.Address = netip.MustParseAddr("fe80::1") },
		"base URL":     func(c *Config) { c.BaseURL = "http://x/y" },
		"in order":     func(c *Config) { c.First, c.Last = c.Last, c.First },
		"not inside":   func(c *Config) { c.Last = netip.MustParseAddr("10.10.0.1") },
		"gateway":      func(c *Config) { c.Gateway = netip.MustParseAddr("192.168.0.1") },
		"lease time":   func(c *Config) { c.LeaseTime = time.Second },
		"leave none":   func(c *Config) { c.Unknown = 20 },
		"at most 65536": func(c *Config) {
			c.Subnet, c.First, c.Last = netip.MustParsePrefix("10.0.0.0/8"), netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.9.0.1")
		},
	}
	for want, spoil := range tests {
		cfg := testConfig()
		spoil(&cfg)
		_, err := New(cfg, storetest.Open(t), &booter{}, &storetest.Recorder{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestUpperHalf(t *testing.T) {
	for network, want := range map[string][2]string{
		"10.9.0.0/24":   {"10.9.0.128", "10.9.0.254"},
		"10.9.0.5/24":   {"10.9.0.128", "10.9.0.254"},
		"10.9.0.0/30":   {"10.9.0.2", "10.9.0.2"},
		"10.0.0.0/8":    {"10.254.255.255", "10.255.255.254"},
		"172.16.0.0/15": {"172.17.0.0", "172.17.255.254"},
	} {
		first, last := UpperHalf(netip.MustParsePrefix(network))
		if first.String() != want[0] || last.String() != want[1] {
			t.Errorf("%s: got %s-%s, want %s-%s", network, first, last, want[0], want[1])
		}
	}
	if first, _ := UpperHalf(netip.MustParsePrefix("10.9.0.0/31")); first.IsValid() {
		t.Errorf("a network without room gives %s", first)
	}
}

func TestRangeBehindARelay(t *testing.T) {
	cfg := testConfig()
	cfg.Address = netip.MustParseAddr("10.1.0.1")
	b := newBench(t, cfg)
	p := packet{port: 67, peer: netip.MustParseAddrPort("10.9.0.2:67")}
	relayed := message(t, dhcpv4.MessageTypeDiscover, enrolledMAC, func(d *dhcpv4.DHCPv4) { d.GatewayIPAddr = netIP(netip.MustParseAddr("10.9.0.2")) })
	if !b.concerns(relayed, p) {
		t.Error("a relayed request from the range's network is dropped")
	}
	if b.concerns(message(t, dhcpv4.MessageTypeDiscover, enrolledMAC), p) {
		t.Error("a request from our own network would get an address of another one")
	}
}
