package boot

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
)

func ack(t *testing.T, modifiers ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithMessageType(dhcpv4.MessageTypeAck)}, modifiers...)...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestReadLease(t *testing.T) {
	s := readLease(ack(t,
		dhcpv4.WithYourIP(net.IPv4(192, 0, 2, 10)), dhcpv4.WithNetmask(net.CIDRMask(24, 32)),
		dhcpv4.WithRouter(net.IPv4(192, 0, 2, 1)), dhcpv4.WithDNS(net.IPv4(192, 0, 2, 53)), dhcpv4.WithLeaseTime(600),
		dhcpv4.WithOption(dhcpv4.OptHostName("node-1.example.org")), dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{0x05, 0x78})))
	if err := s.validate(); err != nil {
		t.Fatal(err)
	}
	if s.address.String() != "192.0.2.10/24" || s.mtu != 1400 || s.hostname != "node-1" || s.lease != 10*time.Minute {
		t.Errorf("read %+v", s)
	}
	var routes []string
	for _, r := range s.routes(100) {
		routes = append(routes, fmt.Sprintf("%v via %v src %v metric %d flags %d", r.Dst, r.Gw, r.Src, r.Priority, r.Flags))
	}
	want := []string{
		"192.0.2.0/24 via <nil> src 192.0.2.10 metric 100 flags 0",
		"0.0.0.0/0 via 192.0.2.1 src 192.0.2.10 metric 100 flags 0",
	}
	if d := cmp.Diff(want, routes); d != "" {
		t.Errorf("routes (-want +got):\n%s", d)
	}
}

func TestStaticRoutesReplaceTheRouter(t *testing.T) {
	_, all, _ := net.ParseCIDR("0.0.0.0/0")
	_, meta, _ := net.ParseCIDR("169.254.169.254/32")
	s := readLease(ack(t,
		dhcpv4.WithYourIP(net.IPv4(192, 0, 2, 10)), dhcpv4.WithNetmask(net.CIDRMask(32, 32)), dhcpv4.WithRouter(net.IPv4(192, 0, 2, 9)),
		dhcpv4.WithOption(dhcpv4.OptClasslessStaticRoute(&dhcpv4.Route{Dest: all, Router: net.IPv4(198, 51, 100, 1)}, &dhcpv4.Route{Dest: meta, Router: net.IPv4zero}))))
	r := s.routes(100)
	if len(r) != 3 || !r[1].Gw.Equal(net.IPv4(198, 51, 100, 1)) || r[1].Flags == 0 || r[2].Gw != nil {
		t.Errorf("routes are %+v", r)
	}
}

func TestBadLeases(t *testing.T) {
	for name, m := range map[string]*dhcpv4.DHCPv4{
		"no address": ack(t, dhcpv4.WithNetmask(net.CIDRMask(24, 32))),
		"broadcast":  ack(t, dhcpv4.WithYourIP(net.IPv4bcast)),
		"multicast":  ack(t, dhcpv4.WithYourIP(net.IPv4(224, 0, 0, 1)), dhcpv4.WithNetmask(net.CIDRMask(4, 32))),
		"bad mask":   ack(t, dhcpv4.WithYourIP(net.IPv4(192, 0, 2, 1)), dhcpv4.WithNetmask(net.IPMask{255, 0, 255, 0})),
		"zero mask":  ack(t, dhcpv4.WithYourIP(net.IPv4(192, 0, 2, 1)), dhcpv4.WithNetmask(net.IPMask{0, 0, 0, 0})),
	} {
		if err := readLease(m).validate(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestLeaseTimes(t *testing.T) {
	from := time.Unix(1000, 0)
	t1, t2, end := leaseTimes(ack(t, dhcpv4.WithLeaseTime(800)), from)
	if d := t1.Sub(from); d > 400*time.Second || d < 380*time.Second {
		t.Errorf("renews after %v", d)
	}
	if t2.Sub(from) != 700*time.Second || end.Sub(from) != 800*time.Second {
		t.Errorf("rebinds after %v, ends after %v", t2.Sub(from), end.Sub(from))
	}
	if _, _, end := leaseTimes(ack(t, dhcpv4.WithLeaseTime(0xffffffff)), from); !end.IsZero() {
		t.Errorf("an infinite lease ends at %v", end)
	}
	if t1, t2, end := leaseTimes(ack(t, dhcpv4.WithLeaseTime(0)), from); !(t1.After(from) && t2.After(t1) && end.After(t2)) {
		t.Errorf("a lease of no time: %v %v %v", t1, t2, end)
	}
}

func TestNextTry(t *testing.T) {
	now := time.Unix(0, 0)
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	for _, tt := range []struct{ t2, end, want int }{
		{1000, 2000, 500}, {100, 2000, 60}, {-1, 1000, 500}, {-1, 30, 30},
	} {
		if got := nextTry(now, at(tt.t2), at(tt.end)); !got.Equal(at(tt.want)) {
			t.Errorf("rebind in %d s, end in %d s: tries in %v, want %d s", tt.t2, tt.end, got.Sub(now), tt.want)
		}
	}
}

func TestHostLabel(t *testing.T) {
	for in, want := range map[string]string{"a.b": "a", "node-1\x00": "node-1", "bad name": "", "x;reboot": "", strings.Repeat("a", 64): "", "": ""} {
		if got := hostLabel(in); got != want {
			t.Errorf("host name %q: got %q, want %q", in, got, want)
		}
	}
}

func TestResolver(t *testing.T) {
	r := resolver{path: filepath.Join(t.TempDir(), "etc/resolv.conf"), servers: map[int][]net.IP{}}
	set := func(metric int, ips ...net.IP) {
		t.Helper()
		if err := r.set(metric, ips); err != nil {
			t.Fatal(err)
		}
	}
	set(202, net.IPv4(192, 0, 2, 2), net.IPv4(192, 0, 2, 1))
	set(100, net.IPv4(192, 0, 2, 1), net.IPv4(192, 0, 2, 3), net.IPv4(192, 0, 2, 4))
	got, _ := os.ReadFile(r.path)
	if want := "nameserver 192.0.2.1\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n"; string(got) != want {
		t.Errorf("boot link first: got\n%s", got)
	}
	set(100)
	got, _ = os.ReadFile(r.path)
	if want := "nameserver 192.0.2.2\nnameserver 192.0.2.1\n"; string(got) != want {
		t.Errorf("after the boot link was lost: got\n%s", got)
	}
}

// waiting starts Wait on a network with two links, the first being the one
// that the machine booted from.
func waiting(t *testing.T) (n *Network, boot, other *link, ended chan error, said *[]string) {
	said = &[]string{}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	n = newNetwork(mac, false, func(f string, a ...any) { *said = append(*said, fmt.Sprintf(f, a...)) })
	boot, other = &link{index: 2, boot: true, carrier: true}, &link{index: 3}
	n.links = map[int]*link{2: boot, 3: other}
	ended = make(chan error, 1)
	go func() { ended <- n.Wait(t.Context()) }()
	return n, boot, other, ended, said
}

func TestWaitPrefersTheBootLink(t *testing.T) {
	address := &net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)}
	synctest.Test(t, func(t *testing.T) {
		n, boot, other, ended, _ := waiting(t)
		n.setAddress(other, address)
		time.Sleep(settleFor - time.Second)
		select {
		case err := <-ended:
			t.Fatalf("did not wait for the boot link: %v", err)
		default:
		}
		n.setAddress(boot, address)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}

func TestWaitTakesAnotherLinkInTheEnd(t *testing.T) {
	address := &net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)}
	synctest.Test(t, func(t *testing.T) {
		n, _, other, ended, said := waiting(t)
		start := time.Now()
		time.Sleep(cableHint + time.Second)
		n.setAddress(other, address)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != cableHint+time.Second+settleFor {
			t.Errorf("went on after %v", took)
		}
		if len(*said) != 2 || !strings.Contains((*said)[0], "1 link(s) have carrier") || !strings.Contains((*said)[1], "02:00:00:00:00:01") {
			t.Errorf("said %q", *said)
		}
	})
}

func TestConsoleDoesNotWait(t *testing.T) {
	c := &Console{start: time.Now()}
	blocked := make(chan struct{})
	t.Cleanup(func() { close(blocked) })
	c.add(writerFunc(func([]byte) (int, error) { <-blocked; return 0, nil }))
	for i := range consoleQueue * 2 {
		c.Printf("line %d\nand more", i)
	}
	if log := string(c.Log()); !strings.Contains(log, "] line 511\r\n[") || !strings.HasSuffix(log, "and more\r\n") {
		t.Errorf("the log ends with %q", log[max(0, len(log)-100):])
	}
	for range 100 {
		fmt.Fprint(c, strings.Repeat("x", 4096))
	}
	if n := len(c.Log()); n != ringSize {
		t.Errorf("the log has %d bytes, want the last %d", n, ringSize)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestPowerPressed(t *testing.T) {
	press := make([]byte, eventSize)
	press[16], press[18], press[20] = 1, keyPower, 1
	release := append([]byte{}, press...)
	release[20] = 0
	if !powerPressed(press) || powerPressed(release) || powerPressed(make([]byte, eventSize)) {
		t.Error("only the pressing of the power button counts")
	}
}

// lldpFrame has a chassis and a port.
var lldpFrame = []byte("\x01\x80\xc2\x00\x00\x0e\x02\x00\x00\x00\x00\x01\x88\xcc" +
	"\x02\x07\x04\x02\x00\x00\x00\x00\x01" + "\x04\x05\x05eth1" + "\x00\x00")

func TestParseLLDP(t *testing.T) {
	got, err := parseLLDP(lldpFrame)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([][2]any{{1, "04020000000001"}, {2, "0565746831"}}, got); d != "" {
		t.Errorf("TLVs (-want +got):\n%s", d)
	}
	if _, err := parseLLDP(lldpFrame[:20]); err == nil {
		t.Error("a cut-off frame was taken")
	}
}

func FuzzParseLLDP(f *testing.F) {
	f.Add(lldpFrame)
	f.Fuzz(func(t *testing.T, frame []byte) {
		if tlvs, err := parseLLDP(frame); err == nil && (len(tlvs) == 0 || len(tlvs) > maxTLVs) {
			t.Errorf("%d TLVs", len(tlvs))
		}
	})
}
