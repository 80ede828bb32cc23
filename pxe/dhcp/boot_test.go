package dhcp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"bessemer/pxe"
)

// firmware is how the kinds of client introduce themselves.
var firmware = []struct {
	name string
	mods []dhcpv4.Modifier
}{
	{"BIOS PXE ROM", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00000:UNDI:002001"), raw(93, "\x00\x00")}},
	{"IA32 UEFI", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00006:UNDI:003016"), raw(93, "\x00\x06")}},
	{"EDK2 x64 (07)", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00007:UNDI:003001"), raw(93, "\x00\x07")}},
	{"x64 UEFI as EBC (09)", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00009:UNDI:003016"), raw(93, "\x00\x09")}},
	{"arm32 UEFI", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00010:UNDI:003000"), raw(93, "\x00\x0a")}},
	{"arm64 UEFI", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00011:UNDI:003000"), raw(93, "\x00\x0b")}},
	{"x64 HTTP boot", []dhcpv4.Modifier{raw(60, "HTTPClient:Arch:00016:UNDI:003001"), raw(93, "\x00\x10")}},
	{"arm64 HTTP boot", []dhcpv4.Modifier{raw(60, "HTTPClient:Arch:00019:UNDI:003000"), raw(93, "\x00\x13")}},
	{"BIOS HTTP boot", []dhcpv4.Modifier{raw(60, "HTTPClient:Arch:00020:UNDI:003000"), raw(93, "\x00\x14")}},
	{"rpiboot", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00041:UNDI:002001"), raw(93, "\x00\x29")}},
	{"unknown architecture", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00200:UNDI:002001"), raw(93, "\x00\xc8")}},
	{"no option 93, architecture in the class", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00007:UNDI:003001")}},
	{"PXEClient without architecture", []dhcpv4.Modifier{raw(60, "PXEClient")}},
	{"iPXE, raw user class", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00007:UNDI:003010"), raw(93, "\x00\x07"), raw(77, "iPXE"), raw(175, "\xb1\x05\x01\x80\x86\x10\x0e")}},
	{"iPXE, user class of RFC 3004", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00000:UNDI:002001"), raw(93, "\x00\x00"), raw(77, "\x04iPXE")}},
	{"built-in UEFI iPXE", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00007:UNDI:003010"), raw(93, "\x00\x07"), raw(77, "Bessemer")}},
	{"built-in BIOS iPXE", []dhcpv4.Modifier{raw(60, "PXEClient:Arch:00007:UNDI:003010"), raw(93, "\x00\x07"), raw(77, "Tinkerbell")}},
	{"iPXE without architecture or class", []dhcpv4.Modifier{raw(175, "\x13\x01\x01")}},
	{"udhcpc", []dhcpv4.Modifier{raw(60, "udhcp 1.35.0"), raw(61, "\x01\x52\x54\x00\x00\x00\x01")}},
	{"no class at all", nil},
}

// dump writes a reply's boot part and options in a stable form.
func dump(d *dhcpv4.DHCPv4) string {
	if d == nil {
		return "  no answer\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  %s yiaddr=%s siaddr=%s file=%q\n", d.MessageType(), d.YourIPAddr, d.ServerIPAddr, d.BootFileName)
	for code := range 255 {
		if v := d.Options.Get(dhcpv4.GenericOptionCode(code)); v != nil && code != 53 {
			fmt.Fprintf(&b, "    %3d %q\n", code, v)
		}
	}
	return b.String()
}

func TestOffersByFirmware(t *testing.T) {
	for _, mode := range []Mode{Full, Proxy} {
		t.Run(string(mode), func(t *testing.T) {
			cfg := testConfig()
			cfg.Mode = mode
			b := newBench(t, cfg)
			var text strings.Builder
			for _, f := range firmware {
				fmt.Fprintf(&text, "%s\n", f.name)
				resp := b.ask(t, message(t, dhcpv4.MessageTypeDiscover, enrolledMAC, f.mods...))
				text.WriteString(dump(resp))
				if mode == Proxy {
					asked, err := parse(message(t, dhcpv4.MessageTypeRequest, enrolledMAC, append(f.mods, has("10.9.0.77"))...).ToBytes())
					if err != nil {
						t.Fatal(err)
					}
					resp := b.Answer(t.Context(), asked, portProxy)
					text.WriteString("  on port 4011:\n" + dump(resp))
				}
				if resp != nil && len(resp.ToBytes()) > 548 {
					t.Errorf("%s: reply has %d bytes, a client need take no more than 548 (RFC 2132 9.10)", f.name, len(resp.ToBytes()))
				}
			}
			golden(t, "offers-"+string(mode)+".golden", text.String())
		})
	}
}

func TestRaspberryPiSaysBIOS(t *testing.T) {
	b := newBench(t, testConfig())
	resp := b.ask(t, message(t, dhcpv4.MessageTypeDiscover, "dc:a6:32:01:02:03", raw(60, "PXEClient:Arch:00000:UNDI:002001"), raw(93, "\x00\x00")))
	if resp == nil || resp.BootFileName != "" {
		t.Errorf("got %v, want an address and no boot file", resp)
	}
	if got := b.booter.last().Arch; got != pxe.RPi {
		t.Errorf("booter heard of architecture %s, want rpi", got)
	}
}

func TestPortWithoutPXEGetsNoBootAnswer(t *testing.T) {
	b := newBench(t, testConfig())
	for _, f := range firmware {
		resp := b.ask(t, message(t, dhcpv4.MessageTypeDiscover, disabledMAC, f.mods...))
		if resp == nil || addr(resp.YourIPAddr) == (netip.Addr{}) {
			t.Fatalf("%s: no address", f.name)
		}
		if resp.BootFileName != "" || resp.Options.Has(dhcpv4.OptionBootfileName) || resp.Options.Has(optionIPXE) {
			t.Errorf("%s: got a boot answer: %s", f.name, dump(resp))
		}
	}
}

func TestBooterHearsWhoAsks(t *testing.T) {
	b := newBench(t, testConfig())
	uuid := "\x00\x5a\x27\xb7\x16\x72\x4a\x8c\x50\x01\x02\x03\x04\x05\x06\x07\x08"
	b.ask(t, message(t, dhcpv4.MessageTypeDiscover, "52:54:00:aa:bb:cc", raw(60, "PXEClient:Arch:00007:UNDI:003001"), raw(93, "\x00\x07"),
		raw(97, uuid), raw(77, "a\x00\x1b[31mb")))
	m := b.booter.last()
	if m.MAC.String() != "52:54:00:aa:bb:cc" || m.UUID != "16b7275a-4a72-508c-0102-030405060708" || m.Arch != pxe.X64 ||
		m.What != "DHCP DISCOVER" || m.UserClass != "a[31mb" {
		t.Errorf("booter heard %+v", m)
	}
}

func TestEveryReplyComesFromUs(t *testing.T) {
	b := newBench(t, testConfig())
	agent := "\x01\x04eth1\x02\x03abc"
	for _, resp := range []*dhcpv4.DHCPv4{
		b.ask(t, message(t, dhcpv4.MessageTypeDiscover, enrolledMAC, raw(82, agent))),
		b.ask(t, message(t, dhcpv4.MessageTypeRequest, enrolledMAC, raw(82, agent), requested("10.9.0.3"), server("10.9.0.1"))),
	} {
		if got := addr(resp.ServerIdentifier()); got != netip.MustParseAddr("10.9.0.1") {
			t.Errorf("%s: server identifier %s", resp.MessageType(), got)
		}
		if got := resp.Options.Get(dhcpv4.OptionRelayAgentInformation); string(got) != agent {
			t.Errorf("%s: option 82 came back as %q", resp.MessageType(), got)
		}
	}
}
