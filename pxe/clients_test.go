package pxe_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/mdlayher/packet"

	"bessemer/pxe"
	"bessemer/pxe/dhcp"
	"bessemer/pxe/ipxe"
	"bessemer/store"
)

// TestInNamespace is run by TestWithRealClients, in a network namespace.
func TestInNamespace(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		t.Skip("run by TestWithRealClients")
	}
	r := newRack(t)
	for _, tt := range []struct {
		name string
		test func(*rack, *testing.T)
	}{
		{"udhcpc", (*rack).udhcpc},
		{"lease is stored", (*rack).leaseStored},
		{"tftp client", (*rack).tftpClient},
		{"curl", (*rack).curl},
		{"firmware without broadcast flag", (*rack).firmwareDORA},
		{"router solicitation", (*rack).solicit},
		{"second server is refused", (*rack).secondServer},
		{"flood of forged machines", (*rack).flood},
		{"other server is found", (*rack).probe},
		{"proxy", (*rack).proxy},
		{"perfdhcp", (*rack).perfdhcp},
		{"interface removed and back", (*rack).linkBack},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sub := *r
			sub.t = t
			tt.test(&sub, t)
		})
	}
}

func need(t *testing.T, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		t.Skipf("needs %s", tool)
	}
	return path
}

const dhcpScript = `#!/bin/sh
if [ "$1" = bound ]; then ip addr replace "$ip/16" dev "$interface"; echo "ip=$ip boot=$boot_file siaddr=$siaddr lease=$lease router=$router"; fi
`

func (r *rack) udhcpc(t *testing.T) {
	udhcpc := need(t, "udhcpc")
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte(dhcpScript), 0o755); err != nil {
		t.Fatal(err)
	}
	out := r.client(udhcpc, "-i", client, "-n", "-q", "-f", "-t", "4", "-T", "1", "-s", script)
	if !regexp.MustCompile(`ip=10\.9\.(3[2-9]|4[0-7])\.\d+ boot= siaddr= lease=300 router=10\.9\.0\.1`).MatchString(out) {
		t.Errorf("udhcpc says %s", out)
	}
}

func (r *rack) clientIP() string {
	m := regexp.MustCompile(`inet (10\.9\.\d+\.\d+)/16`).FindStringSubmatch(r.client("ip", "-4", "addr", "show", "dev", client))
	if m == nil {
		r.t.Skip("the client has no address")
	}
	return m[1]
}

func (r *rack) leaseStored(t *testing.T) {
	ip := r.clientIP()
	err := r.db.View(func(tx *store.Tx) error {
		l, err := store.Leases.Get(tx, ip)
		if err == nil && l.State != "bound" {
			err = fmt.Errorf("state %s", l.State)
		}
		return err
	})
	if err != nil {
		t.Errorf("lease of %s: %v", ip, err)
	}
}

func (r *rack) tftpClient(t *testing.T) {
	tftp := need(t, "tftp")
	r.clientIP()
	dst := filepath.Join(t.TempDir(), "got")
	out := r.client(tftp, "-m", "binary", "10.9.0.1", "-c", "get", pxe.NBPX64, dst)
	got, err := os.ReadFile(dst)
	if err != nil || sha256.Sum256(got) != sha256.Sum256(ipxe.Builtin()[pxe.NBPX64]) {
		t.Errorf("tftp got %d bytes: %v %s", len(got), err, out)
	}
}

func (r *rack) curl(t *testing.T) {
	curl := need(t, "curl")
	r.clientIP()
	script := r.client(curl, "-sSf", "http://10.9.0.1:6386/boot/ipxe/"+nodeA)
	if strings.Contains(script, "kernel") || !strings.Contains(script, "booting from disk") {
		t.Errorf("got another machine's script:\n%s", script)
	}
	speed := r.client(curl, "-sSf", "-o", "/dev/null", "-w", "%{size_download} %{speed_download}", "http://10.9.0.1:6386"+pxe.PathInitrd)
	size, rate, _ := strings.Cut(speed, " ")
	if size != strconv.Itoa(6*4<<20) {
		t.Errorf("curl got %s bytes", size)
	}
	bps, _ := strconv.ParseFloat(rate, 64)
	t.Logf("HTTP over veth: %.0f MB/s", bps/1e6)
	head := r.client(curl, "-sSfI", "http://10.9.0.1:6386"+pxe.PathNBP+pxe.NBPX64)
	if !strings.Contains(head, "Content-Length: "+strconv.Itoa(len(ipxe.Builtin()[pxe.NBPX64]))) {
		t.Errorf("HEAD says %s", head)
	}
}

func dora(mac net.HardwareAddr, mods ...dhcpv4.Modifier) (*nclient4.Lease, time.Duration, error) {
	c, err := nclient4.New(wire, nclient4.WithTimeout(time.Second), nclient4.WithRetry(4), nclient4.WithHWAddr(mac))
	if err != nil {
		return nil, 0, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	begun := time.Now()
	l, err := c.Request(ctx, mods...)
	return l, time.Since(begun), err
}

func parseMAC(s string) net.HardwareAddr {
	mac, err := net.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return mac
}

// firmwareDORA boots as iPXE does, without the broadcast flag: the answer is a
// frame to a MAC that answers no ARP. The interface takes on that MAC.
func (r *rack) firmwareDORA(t *testing.T) {
	r.ip("link set " + wire + " address " + nodeA)
	var took []time.Duration
	for range 8 { // 16 packets: below the limit of one MAC
		l, d, err := dora(parseMAC(nodeA), dhcpv4.WithBroadcast(false),
			dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00007:UNDI:003001")), dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_X86_64)))
		if err != nil {
			t.Fatal(err)
		}
		if l.ACK.BootFileName != pxe.NBPX64 || !l.ACK.ServerIPAddr.Equal(net.IPv4(10, 9, 0, 1)) {
			t.Fatalf("got %s", l.ACK.Summary())
		}
		took = append(took, d)
	}
	slices.Sort(took)
	t.Logf("DORA with commit: median %s, worst of 8 %s", took[4].Round(10*time.Microsecond), took[7].Round(10*time.Microsecond))
	ms := r.rec.Messages()
	i := slices.IndexFunc(ms, func(m store.Message) bool { return m.Label == store.LabelNextServer })
	if i < 0 || ms[i].Node != "node-of-"+nodeA {
		t.Error("the node's exchange was not recorded")
	}
}

func (r *rack) solicit(t *testing.T) {
	ifi, err := net.InterfaceByName(wire)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := packet.Listen(ifi, packet.Datagram, 0x86dd, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// An unspecified source and no option, as iPXE sends it.
	rs := make([]byte, 48)
	rs[0], rs[5], rs[6], rs[7], rs[40] = 0x60, 8, 58, 255, 133
	copy(rs[24:], net.ParseIP("ff02::2").To16())
	sum := uint32(8 + 58)
	for i := 8; i < 48; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(rs[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(rs[42:], ^uint16(sum))
	if _, err := conn.WriteTo(rs, &packet.Addr{HardwareAddr: net.HardwareAddr{0x33, 0x33, 0, 0, 0, 2}}); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 2000)
	for {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			t.Fatalf("no advertisement: %v", err)
		}
		if n == 56 && buf[40] == 134 {
			if buf[7] != 255 || binary.BigEndian.Uint16(buf[46:]) != 0 || netip.AddrFrom16([16]byte(buf[24:40])) != netip.MustParseAddr("ff02::1") {
				t.Errorf("got advertisement % x", buf[:n])
			}
			return
		}
	}
}

func (r *rack) secondServer(t *testing.T) {
	err := r.newDHCP(rackConfig()).Open()
	if err == nil || !strings.Contains(err.Error(), "port 67 on br0 is in use by pxe.test (process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("got %v, want who holds the port", err)
	}
}

// flood sends forged DISCOVERs as fast as it can for a second, and asks as a
// node meanwhile.
func (r *rack) flood(t *testing.T) {
	ifi, err := net.InterfaceByName(wire)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nclient4.NewRawUDPConn(ifi.Name, 68)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	done := make(chan int)
	stop := time.Now().Add(time.Second)
	go func() {
		n := 0
		for ; time.Now().Before(stop); n++ {
			m, _ := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeDiscover), dhcpv4.WithHwAddr(net.HardwareAddr{2, 9, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}))
			_, _ = conn.WriteTo(m.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: 67})
		}
		done <- n
	}()
	time.Sleep(200 * time.Millisecond)
	_, took, err := dora(parseMAC(nodeA))
	if err != nil {
		t.Errorf("node got no address in a flood: %v", err)
	}
	t.Logf("a node's DORA took %s while %d forged DISCOVERs came in a second", took.Round(10*time.Microsecond), <-done)
}

func (r *rack) probe(t *testing.T) {
	dnsmasq := need(t, "dnsmasq")
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	found, err := dhcp.Probe(ctx, bridge)
	if err != nil || len(found) != 0 {
		t.Errorf("found %v, %v, want nothing: ours is not another server", found, err)
	}
	r.client("ip", "addr", "flush", "dev", client)
	r.client("ip", "addr", "add", "10.9.0.2/16", "dev", client)
	defer func() { _, _ = r.tryClient("ip", "addr", "del", "10.9.0.2/16", "dev", client) }()
	other := r.command(t.Context(), dnsmasq, "-k", "-C", "/dev/null", "-p", "0", "-i", client, "--bind-interfaces", "--user=root", "--no-ping",
		"--dhcp-leasefile="+filepath.Join(t.TempDir(), "leases"), "--pid-file=", "--dhcp-range=10.9.3.1,10.9.3.9,255.255.0.0")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	for range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		found, err = dhcp.Probe(ctx, bridge)
		cancel()
		if err == nil && slices.Equal(found, []netip.Addr{netip.MustParseAddr("10.9.0.2")}) {
			return
		}
	}
	t.Errorf("found %v, %v, want 10.9.0.2", found, err)
}

// perfdhcp measures exchanges a second. It acts as a relay, so this is also the
// test of relayed requests.
func (r *rack) perfdhcp(t *testing.T) {
	perf := need(t, "perfdhcp")
	r.ip("link add br2 type bridge forward_delay 0")
	defer r.ip("link del br2")
	r.ip("addr add 10.7.0.1/16 dev br2")
	r.ip("link add s3 type veth peer name c3")
	r.ip("link set s3 master br2 up")
	r.ip("link set br2 up")
	r.ip("link set c3 netns " + strconv.Itoa(r.pid))
	r.client("ip", "addr", "add", "10.7.0.2/16", "dev", "c3")
	r.client("ip", "link", "set", "c3", "up")
	cfg := rackConfig()
	cfg.Interface, cfg.Address, cfg.BaseURL = "br2", netip.MustParseAddr("10.7.0.1"), "http://10.7.0.1:6386"
	cfg.First, cfg.Last, cfg.Subnet, cfg.Gateway = netip.MustParseAddr("10.7.16.0"), netip.MustParseAddr("10.7.95.255"), netip.MustParsePrefix("10.7.0.0/16"), netip.Addr{}
	cfg.Unknown = 16384
	cfg.Limits = dhcp.Limits{PerMAC: 1e6, Unknown: 1e6}
	defer start(t, r.newDHCP(cfg))()
	// perfdhcp exits with 3 when a packet was dropped.
	out, err := r.tryClient(perf, "-4", "-l", "c3", "-r", "500", "-R", "2000", "-p", "2", "-W", "300000")
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 3) {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("%s", out)
	if err != nil {
		t.Error("packets were dropped at 500 exchanges a second")
	}
}

// linkBack removes the interface and makes it again: the server must find it.
func (r *rack) linkBack(t *testing.T) {
	r.ip("link del br0")
	r.ip("link del s0")
	r.makeBridge()
	r.ip("link set s1 master br0")
	for range 10 {
		if _, _, err := dora(parseMAC(nodeA)); err == nil {
			return
		}
	}
	t.Error("no answer on the interface that came back")
}
