package boot

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseCmdline(t *testing.T) {
	c := ParseCmdline(`vmlinuz BOOT_IMAGE=/boot/deploy ro text ipa-api-url=http://192.0.2.1:6380/ ipa-agent-token=s3cret ` +
		`ipa-global-request-id=req-1 ipa-lookup-timeout=300 ipa_insecure=True ipa-debug=0 ipa-collect-lldp ipa-advertise-port=9998 ` +
		`ipa-listen-host=[2001:db8::1] BOOTIF=01-52-54-00-12-34-56 mlx4_core.log_num_mac=1 quoted="two words" initrd=initrd` + "\n")
	want := Cmdline{
		APIURL: "http://192.0.2.1:6380", AgentToken: "s3cret", RequestID: "req-1", LookupTimeout: 300 * time.Second,
		Insecure: true, CollectLLDP: true, AdvertisePort: 9998, ListenHost: "2001:db8::1", BootMAC: c.BootMAC, Args: c.Args,
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Errorf("command line differs (-want +got):\n%s", d)
	}
	if got := c.BootMAC.String(); got != "52:54:00:12:34:56" {
		t.Errorf("boot MAC is %s", got)
	}
	for key, want := range map[string]string{"quoted": "two words", "BOOT_IMAGE": "/boot/deploy", "vmlinuz": "", "mlx4_core.log_num_mac": "1"} {
		if got := c.Args[key]; got != want {
			t.Errorf("argument %s is %q, want %q", key, got, want)
		}
	}
}

func TestParseCmdlineIgnoresNonsense(t *testing.T) {
	c := ParseCmdline("ipa-api-url=file:///etc/shadow ipa-lookup-timeout=-5 ipa-listen-port=99999 ipa-insecure=False ipa-debug=maybe BOOTIF=01-zz")
	if d := cmp.Diff(Cmdline{Args: c.Args}, c); d != "" {
		t.Errorf("nonsense was taken for something (-want +got):\n%s", d)
	}
}

func TestParseBOOTIF(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"01-52-54-00-AB-cd-ef", "52:54:00:ab:cd:ef"}, // PXELINUX, iPXE's hexhyp
		{"01:52:54:00:ab:cd:ef", "52:54:00:ab:cd:ef"}, // GRUB
		{"52:54:00:ab:cd:ef", "52:54:00:ab:cd:ef"},
		{"52-54-00-ab-cd-ef", "52:54:00:ab:cd:ef"},
		{"20-52-54-00-ab-cd-ef", ""}, // not Ethernet
		{"52:54:00:ab:cd", ""},
		{"", ""},
	} {
		if got := parseBOOTIF(tt.in).String(); got != tt.want {
			t.Errorf("BOOTIF=%s: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzParseCmdline(f *testing.F) {
	f.Add(`BOOT_IMAGE=x ipa-api-url=http://h:1 BOOTIF=01-52-54-00-12-34-56 a="b c"`)
	f.Add("\"\"=\x00 ipa-listen-port=-1")
	f.Fuzz(func(t *testing.T, text string) {
		c := ParseCmdline(text)
		if c.APIURL != "" && !strings.HasPrefix(strings.ToLower(c.APIURL), "http") {
			t.Errorf("API URL %q", c.APIURL)
		}
		if c.ListenPort < 0 || c.ListenPort > 65535 || c.LookupTimeout < 0 || c.LookupTimeout > maxLookupTimeout {
			t.Errorf("out of bounds: %+v", c)
		}
		if n := len(c.BootMAC); n != 0 && n != 6 {
			t.Errorf("boot MAC of %d bytes", n)
		}
	})
}
