package ra

import (
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/bpf"
	"golang.org/x/time/rate"
)

var us = netip.MustParseAddr("fe80::5054:ff:fe00:1")

// solicit is a router solicitation as iPXE sends it.
func solicit(t testing.TB) []byte {
	t.Helper()
	p := make([]byte, ipHeader+rsLength)
	p[0], p[5], p[nextAt], p[hopsAt], p[ipHeader] = 0x60, rsLength, protoICMP, 255, solicitation
	dst := netip.MustParseAddr("ff02::2").As16()
	copy(p[24:], dst[:])
	s := sum(p)
	p[ipHeader+2], p[ipHeader+3] = byte(s>>8), byte(s)
	return p
}

// advertise is what a real router sends.
func advertise(from string, lifetime uint16) []byte {
	p := empty(netip.MustParseAddr(from))
	p[ipHeader+6], p[ipHeader+7] = byte(lifetime>>8), byte(lifetime)
	p[ipHeader+2], p[ipHeader+3] = 0, 0
	s := sum(p)
	p[ipHeader+2], p[ipHeader+3] = byte(s>>8), byte(s)
	return p
}

func TestEmptyAdvertisement(t *testing.T) {
	got := hex.EncodeToString(empty(us))
	// The checksum worked out by hand: fe80+5054+00ff+fe00+0001 + ff02+0001 +
	// 0010+003a + 8600 = 3d321, folded d324, inverted 2cdb.
	want := "6000000000103aff" + "fe80000000000000505400fffe000001" + "ff020000000000000000000000000001" + "86002cdb000000000000000000000000"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if m, ok := parse(empty(us)); !ok || m.kind != advertisement || m.lifetime != 0 || m.from != us {
		t.Errorf("parsed as %+v %v", m, ok)
	}
}

func TestParseRefuses(t *testing.T) {
	good := solicit(t)
	if _, ok := parse(good); !ok {
		t.Fatal("a good solicitation is refused")
	}
	if _, ok := parse(append(bytes.Clone(good), 0, 0, 0, 0, 0, 0)); !ok {
		t.Error("Ethernet's padding is not ignored")
	}
	tests := map[string]func(p []byte) []byte{
		"short":             func(p []byte) []byte { return p[:47] },
		"from another link": func(p []byte) []byte { p[hopsAt] = 64; return p },
		"wrong checksum":    func(p []byte) []byte { p[ipHeader+2] ^= 1; return p },
		"wrong code":        func(p []byte) []byte { p[ipHeader+1] = 1; return p },
		"not ICMPv6":        func(p []byte) []byte { p[nextAt] = 17; return p },
		"longer than it is": func(p []byte) []byte { p[5] = 200; return p },
		"shorter than a RS": func(p []byte) []byte { p[5] = 4; return p },
		"IPv4":              func(p []byte) []byte { p[0] = 0x45; return p },
		"empty":             func([]byte) []byte { return nil },
		"RA, source global": func([]byte) []byte { return advertise("2001:db8::1", 1800) },
	}
	for name, spoil := range tests {
		if m, ok := parse(spoil(bytes.Clone(good))); ok {
			t.Errorf("%s: parsed as %+v", name, m)
		}
	}
}

func TestFilter(t *testing.T) {
	vm, err := bpf.NewVM(wanted)
	if err != nil {
		t.Fatal(err)
	}
	echo := solicit(t)
	echo[ipHeader] = 128
	udp := solicit(t)
	udp[nextAt] = 17
	neighbor := solicit(t)
	neighbor[ipHeader] = 135
	for name, tt := range map[string]struct {
		p    []byte
		want bool
	}{
		"solicitation": {solicit(t), true}, "advertisement": {empty(us), true},
		"echo": {echo, false}, "udp": {udp, false}, "neighbor solicitation": {neighbor, false},
	} {
		n, err := vm.Run(tt.p)
		if err != nil || n > 0 != tt.want {
			t.Errorf("%s: %d bytes pass, %v", name, n, err)
		}
	}
}

// TestRealRouterSilencesUs has no socket: an answer would be a nil pointer.
func TestRealRouterSilencesUs(t *testing.T) {
	r := &Responder{log: zerolog.Nop(), src: us, limit: rate.NewLimiter(perSecond, perSecond)}
	r.handle(advertise("fe80::99", 0)) // no default router: another like us
	if !r.quiet.IsZero() {
		t.Error("silent for an advertisement without lifetime")
	}
	r.handle(advertise(us.String(), 1800))
	if !r.quiet.IsZero() {
		t.Error("silent for our own address")
	}
	r.handle(advertise("fe80::99", 1800))
	r.handle(solicit(t))
	if d := time.Until(r.quiet); d < 29*time.Minute || d > 30*time.Minute {
		t.Errorf("silent for %s, want the router's half an hour", d)
	}
}

func TestLinkLocalFromMAC(t *testing.T) {
	ifi := &net.Interface{Index: 1 << 30, Name: "none", HardwareAddr: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}}
	if got := linkLocal(ifi); got != us {
		t.Errorf("got %s, want %s", got, us)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(solicit(f))
	f.Add(empty(us))
	f.Add(advertise("fe80::1", 1800))
	f.Fuzz(func(t *testing.T, p []byte) {
		if m, ok := parse(p); ok && (m.kind != solicitation && m.kind != advertisement || m.lifetime < 0) {
			t.Errorf("%x: %+v", p, m)
		}
	})
}
