package server

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"bessemer/configs"
)

func TestDHCPRange(t *testing.T) {
	tests := []struct{ subnet, text, first, last, fault string }{
		{"192.0.2.0/24", "", "192.0.2.128", "192.0.2.254", ""},
		{"10.0.0.0/22", "", "10.0.2.0", "10.0.3.254", ""},
		{"192.0.2.8/29", "", "192.0.2.12", "192.0.2.14", ""},
		{"10.0.0.0/8", "", "10.254.255.255", "10.255.255.254", ""}, // no more than the server takes
		{"192.0.2.8/30", "", "", "", "too small"},
		{"192.0.2.0/24", "192.0.2.10-192.0.2.20", "192.0.2.10", "192.0.2.20", ""},
		{"192.0.2.0/24", "192.0.3.10-192.0.3.20", "", "", "not inside"},
		{"192.0.2.0/24", "192.0.2.20-192.0.2.10", "", "", "not a range"},
	}
	for _, tt := range tests {
		l := &link{"eth1", netip.Addr{}, netip.MustParsePrefix(tt.subnet)}
		first, last, err := l.dhcpRange(tt.text)
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%s %q: got %v, want %q", tt.subnet, tt.text, err, tt.fault)
			}
			continue
		}
		if err != nil || first.String() != tt.first || last.String() != tt.last {
			t.Errorf("%s %q: got %v-%v, %v, want %s-%s", tt.subnet, tt.text, first, last, err, tt.first, tt.last)
		}
	}
}

func TestSimulatedNetwork(t *testing.T) {
	l, err := findLink(configs.Provisioning{Interface: configs.Simulated})
	if err != nil || !l.simulated() || l.addr.String() != "127.0.0.1" {
		t.Fatalf("got %v, %v", l, err)
	}
	if _, _, err := l.dhcpRange("127.64.0.10-127.64.0.20"); err != nil {
		t.Error(err)
	}
	if _, _, err := l.dhcpRange("127.0.0.10-127.0.0.20"); err == nil {
		t.Error("a range beside the simulated network is taken")
	}
}

func TestChooseAddress(t *testing.T) {
	addrs := []net.Addr{
		&net.IPNet{IP: net.ParseIP("fe80::1"), Mask: net.CIDRMask(64, 128)},
		&net.IPNet{IP: net.IPv4(192, 0, 2, 1).To4(), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.IPv4(198, 51, 100, 7).To4(), Mask: net.CIDRMask(24, 32)},
	}
	tests := []struct{ want, addr, fault string }{
		{"192.0.2.1", "", ""}, {"198.51.100.7", "198.51.100.7", ""}, {"", "192.0.2.9", "not an address of eth1"},
	}
	for _, tt := range tests {
		l, err := chooseAddress(configs.Provisioning{Interface: "eth1", Address: tt.addr}, addrs)
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%q: got %v", tt.addr, err)
			}
			continue
		}
		if err != nil || l.addr.String() != tt.want {
			t.Errorf("%q: got %v, %v", tt.addr, l, err)
		}
	}
	if _, err := chooseAddress(configs.Provisioning{Interface: "eth1"}, addrs[:1]); err == nil || !strings.Contains(err.Error(), "ip address add") {
		t.Errorf("no IPv4 address: got %v", err)
	}
}

func TestMissingInterfaceNamesThoseThatAre(t *testing.T) {
	_, err := findLink(configs.Provisioning{Interface: "nosuch0"})
	if err == nil || !strings.Contains(err.Error(), "there is no nosuch0") {
		t.Errorf("got %v", err)
	}
}
