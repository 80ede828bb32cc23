package server

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/pin/tftp/v3"
	"github.com/rs/zerolog"

	"bessemer/bmc/sim/firmware"
	"bessemer/configs"
	"bessemer/pxe"
	"bessemer/pxe/httpd"
	"bessemer/pxe/ramdisk"
)

// onWire is an appliance on the simulated network with ports of the system's
// choice.
func onWire(t *testing.T) *Server {
	s := testServer(t, zerolog.NewTestWriter(t), func(c *configs.Config) {
		c.Provisioning.Interface, c.Provisioning.Port = configs.Simulated, 0
	})
	serving(t, s)
	return s
}

// A machine of another process gets an address, a boot program and the
// ramdisk, all without privileges.
func TestWire(t *testing.T) {
	s := onWire(t)
	path := s.Config.Path(WireSocket)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	far := firmware.NewRemote(path)
	mac := net.HardwareAddr{0x52, 0x54, 0, 1, 2, 3}
	lease := obtain(t, far, mac)
	if owner, ok := s.dhcp.Owner(lease); !ok || owner.String() != mac.String() {
		t.Errorf("%s is %v's", lease, owner)
	}
	if far.TFTP() != s.Wire().TFTP() || far.TFTP().Port() == 69 {
		t.Errorf("TFTP at %s, at the other end %s", s.Wire().TFTP(), far.TFTP())
	}
	c, err := tftp.NewClient(far.TFTP().String())
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Receive(pxe.NBPX64, "octet")
	if err != nil {
		t.Fatalf("fetch the boot program: %v", err)
	}
	if n, err := r.WriteTo(io.Discard); err != nil || n < 1<<16 {
		t.Errorf("the boot program has %d bytes, %v", n, err)
	}
	kernel, initrd := far.Ramdisk()
	for path, want := range map[string]string{pxe.PathKernel: kernel, pxe.PathInitrd: initrd} {
		if got := fetched(t, s.baseURL()+path); got != want {
			t.Errorf("%s: SHA-256 %s, want %s", path, got, want)
		}
	}
	if why := s.notReady(); len(why) > 0 {
		t.Errorf("not ready: %v", why)
	}
}

// obtain gets an address as firmware does.
func obtain(t *testing.T, w firmware.Wire, mac net.HardwareAddr) (ip netip.Addr) {
	discover, err := dhcpv4.NewDiscovery(mac, dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00007:UNDI:003016")))
	if err != nil {
		t.Fatal(err)
	}
	offer := exchange(t, w, discover)
	request, err := dhcpv4.NewRequestFromOffer(offer)
	if err != nil {
		t.Fatal(err)
	}
	ack := exchange(t, w, request)
	ip, _ = netip.AddrFromSlice(ack.YourIPAddr.To4())
	if ack.MessageType() != dhcpv4.MessageTypeAck || !simulated.subnet.Contains(ip) {
		t.Fatalf("got %s", ack.Summary())
	}
	return ip
}

func exchange(t *testing.T, w firmware.Wire, p *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	t.Helper()
	raw, err := w.DHCP(t.Context(), p.ToBytes(), 67)
	if err != nil || raw == nil {
		t.Fatalf("no answer to %s: %v", p.MessageType(), err)
	}
	reply, err := dhcpv4.FromBytes(raw)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func fetched(t *testing.T, url string) string {
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// What a killed process left does not keep the next from starting.
func TestWireReplacesADeadSocket(t *testing.T) {
	path := t.TempDir() + "/w"
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := listenUnix(t.TempDir() + strings.Repeat("/long", 30)); err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("a path that is too long: %v", err)
	}
}

// putRamdisk puts a ramdisk where one is kept, as ramdisk.Build does.
func putRamdisk(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		ramdisk.KernelName: "a kernel", ramdisk.InitrdName: "an initrd",
		"manifest.json": `{"format": 1, "kernel": {"size": 8, "sha256": "aa"}, "initrd": {"size": 9, "sha256": "bb"}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A ramdisk that was built takes the place of the stand-in.
func TestStandInOnlyWhileThereIsNone(t *testing.T) {
	c := configs.Default()
	c.DataDir, c.Provisioning.Interface = t.TempDir(), configs.Simulated
	k := newRamdiskKeeper(c, zerolog.Nop())
	first, _ := k.sums()
	f, err := k.files()(httpd.Kernel)
	if err != nil || f.Size == 0 || first == "" {
		t.Fatalf("stand-in %v, %v, sum %q", f, err, first)
	}
	putRamdisk(t, k.dir())
	k.open()
	second, _ := k.sums()
	f, err = k.files()(httpd.Kernel)
	if err != nil || second == first || f.Size != int64(len("a kernel")) {
		t.Errorf("built %v, %v, sum %q", f, err, second)
	}
	c.Provisioning.Interface = ""
	c.DataDir = t.TempDir()
	if k := newRamdiskKeeper(c, zerolog.Nop()); len(k.missing()) == 0 {
		t.Error("real machines get a stand-in")
	}
}
