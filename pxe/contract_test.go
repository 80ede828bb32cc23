package pxe_test

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	pintftp "github.com/pin/tftp/v3"
	"github.com/rs/zerolog"

	"bessemer/pxe"
	"bessemer/pxe/dhcp"
	"bessemer/pxe/httpd"
	"bessemer/pxe/ipxe"
	"bessemer/pxe/tftp"
	"bessemer/store/storetest"
)

// TestWhatIsOfferedIsServed holds the boot servers to each other: each name
// and URL that DHCP gives to any kind of client, and each URL in the script
// that it leads to, is answered by TFTP or HTTP.
func TestWhatIsOfferedIsServed(t *testing.T) {
	const base = "http://10.9.0.1:6386"
	files := ipxe.Builtin()
	files[pxe.NBPIA32] = []byte("put there by the operator")
	b := &booter{nodes: map[string]pxe.Boot{nodeA: {Action: pxe.Ramdisk, Node: "n", Args: []string{"x=y"}}}}
	cfg := rackConfig()
	cfg.HasFile = files.Has
	rec := &storetest.Recorder{}
	h, err := httpd.New(httpd.Config{Booter: b, BaseURL: base, NBPs: files, Recorder: rec, Ramdisk: ramdiskOf([]byte("k"), []byte("i")), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ts := tftp.New(tftp.Config{Address: netip.MustParseAddrPort("127.0.0.1:0"), Files: files, Booter: b, Recorder: rec, Log: zerolog.Nop()})
	served := map[string]bool{}
	for _, mode := range []dhcp.Mode{dhcp.Full, dhcp.Proxy} {
		cfg.Mode = mode
		s, err := dhcp.New(cfg, storetest.Open(t), b, rec)
		if err != nil {
			t.Fatal(err)
		}
		for arch := range pxe.Arch(0x40) {
			for _, class := range []string{"PXEClient", "HTTPClient"} {
				for _, user := range []string{"", "iPXE", "\x04iPXE", "Bessemer", "Tinkerbell"} {
					offer := s.Answer(t.Context(), discover(t, arch, class, user), 67)
					if offer == nil || offer.BootFileName == "" {
						continue
					}
					if opt := offer.BootFileNameOption(); opt != offer.BootFileName {
						t.Errorf("%s: option 67 says %q, the file field %q", arch, opt, offer.BootFileName)
					}
					served[offer.BootFileName] = true
				}
			}
		}
	}
	if len(served) < 8 {
		t.Fatalf("only %v were offered", served)
	}
	addr := startTFTP(t, ts)
	for name := range served {
		if !strings.Contains(name, "://") {
			if got := fetchTFTP(t, addr, name); !bytes.Equal(got, files[name]) {
				t.Errorf("TFTP serves %d bytes as %s, want %d", len(got), name, len(files[name]))
			}
			continue
		}
		checkURL(t, h, base, name)
	}
}

func discover(t *testing.T, arch pxe.Arch, class, user string) *dhcpv4.DHCPv4 {
	t.Helper()
	m, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeDiscover), dhcpv4.WithHwAddr(parseMAC(nodeA)),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(class)),
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientSystemArchitectureType, []byte{byte(arch >> 8), byte(arch)})))
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		m.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionUserClassInformation, []byte(user)))
	}
	return m
}

var urls = regexp.MustCompile(`http://\S+`)

// checkURL fetches what a URL names, and, if it is a script, what that names.
func checkURL(t *testing.T, h http.Handler, base, url string) {
	t.Helper()
	path, ok := strings.CutPrefix(url, base)
	if !ok {
		t.Errorf("%s is not on our server", url)
		return
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != http.StatusOK || w.Body.Len() == 0 {
		t.Errorf("GET %s: %d, %d bytes", path, w.Code, w.Body.Len())
	}
	if !strings.HasPrefix(w.Body.String(), "#!ipxe") {
		return
	}
	found := urls.FindAllString(w.Body.String(), -1)
	if len(found) < 2 {
		t.Errorf("script names no kernel and initrd:\n%s", w.Body)
	}
	for _, u := range found {
		if u != base { // ipa-api-url
			checkURL(t, h, base, u)
		}
	}
}

func startTFTP(t *testing.T, s *tftp.Server) string {
	t.Helper()
	start(t, s)
	return s.Addr().String()
}

func fetchTFTP(t *testing.T, addr, name string) []byte {
	t.Helper()
	c, err := pintftp.NewClient(addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetBlockSize(1468)
	w, err := c.Receive(name, "octet")
	if err != nil {
		t.Errorf("TFTP %s: %v", name, err)
		return nil
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Errorf("TFTP %s: %v", name, err)
	}
	return b.Bytes()
}

func TestLimit(t *testing.T) {
	l := pxe.Limit{Total: 5, PerSource: 2, Strangers: 3}
	ip := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }
	var give []func()
	take := func(n byte, known, want bool) {
		t.Helper()
		release, ok := l.Take(ip(n), known)
		if ok != want {
			t.Fatalf("source %d, known %v: got %v, want %v", n, known, ok, want)
		}
		if ok {
			give = append(give, release)
		}
	}
	take(1, false, true)
	take(1, false, true)
	take(1, false, false) // its share
	take(2, false, true)
	take(3, false, false) // the strangers' share
	take(4, true, true)
	take(5, true, true)
	take(6, true, false) // all
	for _, f := range give {
		f()
		f() // twice does no harm
	}
	give = nil
	take(1, false, true)
	take(1, false, true)
	if _, ok := l.Take(netip.MustParseAddr("::ffff:10.0.0.1"), false); ok {
		t.Error("an address has two shares by its two forms")
	}
}

func TestCheckArg(t *testing.T) {
	for _, ok := range []string{"console=ttyS0,115200n8", "ipa-api-url=http://[fd00::1]:6386", "a", "x=%41~+@*!?^-_[]"} {
		if err := pxe.CheckArg(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for _, bad := range []string{
		"", "a b", "a\nshell", "a\rb", "a\x00", "${net0/mac}", "#x", "a&&b", "a||b", "a;b", `a"b`, "a'b", `a\b`, "{{.}}", "a`b", "ä", "a\tb", "a$b",
		strings.Repeat("x", 8192),
	} {
		if err := pxe.CheckArg(bad); err == nil {
			t.Errorf("%.20q is taken", bad)
		}
	}
	if err := pxe.CheckArgs(make([]string, 1)); err == nil {
		t.Error("an empty argument is taken")
	}
}

func TestCheckBase(t *testing.T) {
	for _, ok := range []string{"http://10.0.0.1:6386", "https://boot.example.org", "http://[fd00::1]:80"} {
		if err := pxe.CheckBase(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for _, bad := range []string{"", "10.0.0.1", "ftp://x", "http://", "http://x/", "http://x/y", "http://u:p@x", "http://x?q", "http://x#f", "http://x y", "http://" + strings.Repeat("x", 120)} {
		if err := pxe.CheckBase(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestUUIDFromSMBIOS(t *testing.T) {
	raw := []byte{0x5a, 0x27, 0xb7, 0x16, 0x72, 0x4a, 0x8c, 0x50, 0x80, 1, 2, 3, 4, 5, 6, 7}
	if got := pxe.UUIDFromSMBIOS(raw); got != "16b7275a-4a72-508c-8001-020304050607" {
		t.Errorf("got %s", got)
	}
	for _, none := range [][]byte{nil, make([]byte, 16), bytes.Repeat([]byte{0xff}, 16), make([]byte, 15)} {
		if got := pxe.UUIDFromSMBIOS(none); got != "" {
			t.Errorf("% x: got %s", none, got)
		}
	}
}

func TestArchNames(t *testing.T) {
	for a, want := range map[pxe.Arch]string{pxe.BIOS: "bios", pxe.EBC: "x64-uefi", pxe.X64HTTP: "x64-http", pxe.NoArch: "", 0xc8: "arch-0xc8"} {
		if a.String() != want {
			t.Errorf("%#x: got %q, want %q", uint16(a), a.String(), want)
		}
	}
	if mac := (net.HardwareAddr{0x52, 0x54, 0, 0xAB, 0, 1}); pxe.ScriptURL("http://x", mac) != "http://x/boot/ipxe/52:54:00:ab:00:01" {
		t.Errorf("script URL is %s", pxe.ScriptURL("http://x", mac))
	}
}
