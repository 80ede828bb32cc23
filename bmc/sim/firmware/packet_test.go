package firmware

import (
	"encoding/hex"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"bessemer/bmc/sim/flaw"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestPackets holds the packets of each kind of client to what was agreed once:
// byte by byte, since they are what the appliance is tested with.
func TestPackets(t *testing.T) {
	mac, _ := net.ParseMAC(testMAC)
	var b strings.Builder
	for _, tt := range []struct {
		name    string
		mode    string
		quirk   flaw.ID
		persona func(m *machine) persona
	}{
		{"BIOS PXE ROM", bios, "", func(m *machine) persona { return persona{arch: m.arch(false)} }},
		{"UEFI PXE", uefi, "", func(m *machine) persona { return persona{arch: m.arch(false)} }},
		{"UEFI PXE that calls itself EBC (D-01)", uefi, "D-01", func(m *machine) persona { return persona{arch: m.arch(false)} }},
		{"UEFI HTTP boot", uefi, "", func(m *machine) persona { return persona{arch: m.arch(true), http: true} }},
		{"iPXE", uefi, "", func(m *machine) persona { return persona{arch: m.arch(false), ipxe: true, user: "iPXE"} }},
		{"BIOS PXE ROM behind a relay (D-26)", bios, "D-26", func(m *machine) persona { return persona{arch: m.arch(false)} }},
		{"BIOS PXE ROM without END (D-20)", bios, "D-20", func(m *machine) persona { return persona{arch: m.arch(false)} }},
		{"operating system", uefi, "", func(*machine) persona { return persona{plain: true} }},
	} {
		m := newMachine(Config{MAC: mac, UUID: testUUID, Mode: tt.mode, Seed: 1, Flaws: flaw.NewSet(1, tt.quirk)})
		for _, kind := range []dhcpv4.MessageType{dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest} {
			var mods []dhcpv4.Modifier
			if kind == dhcpv4.MessageTypeRequest {
				mods = append(mods, requesting(netip.MustParseAddr("127.64.1.5"), netip.MustParseAddr("127.0.0.1")))
			}
			d, err := m.packet(kind, tt.persona(m), mods...)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s, %s\n%s\n", tt.name, kind, hex.Dump(m.bytes(d)))
		}
	}
	golden(t, "packets.golden", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got), run with -update if that is right:\n%s", path, diff)
	}
}

// FuzzReply gives a machine every kind of reply.
func FuzzReply(f *testing.F) {
	mac, _ := net.ParseMAC(testMAC)
	m := newMachine(Config{MAC: mac, Mode: bios, Seed: 1, Pace: 1})
	to, err := m.packet(dhcpv4.MessageTypeDiscover, persona{})
	if err != nil {
		f.Fatal(err)
	}
	reply, err := dhcpv4.NewReplyFromRequest(to, dhcpv4.WithMessageType(dhcpv4.MessageTypeOffer), requesting(netip.MustParseAddr("127.64.1.5"), netip.MustParseAddr("127.0.0.1")))
	if err != nil {
		f.Fatal(err)
	}
	reply.YourIPAddr, reply.BootFileName = net.IPv4(127, 64, 1, 5), "ipxe.efi"
	reply.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(16, 32)))
	f.Add(reply.ToBytes())
	f.Add(to.ToBytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, ok := m.read(raw, to)
		if !ok {
			return
		}
		a := learn(d)
		if a.lease.IP.IsValid() && !a.lease.Prefix.Contains(a.lease.IP) {
			t.Errorf("%+v", a.lease)
		}
		if len(a.file) > 4096 || strings.Contains(a.file, "\x00") {
			t.Errorf("file %q", a.file)
		}
	})
}

// FuzzTFTP gives a transfer every kind of packet.
func FuzzTFTP(f *testing.F) {
	f.Add([]byte("\x00\x06blksize\x00512\x00tsize\x009\x00"))
	f.Add([]byte("\x00\x03\x00\x01content"))
	f.Add([]byte("\x00\x05\x00\x01file not found\x00"))
	f.Add([]byte("\x00\x06blksize\x0099999999\x00"))
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { conn.Close() })
	self := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	f.Fuzz(func(t *testing.T, p []byte) {
		tr := newTransfer(newMachine(Config{Mode: uefi, Pace: 1}), self, []tftpOption{{"blksize", 1468}, {"tsize", 0}}, &program{})
		tr.conn = conn
		_, _, err := tr.take(p, self)
		if err == nil && (tr.size < 8 || tr.size > 1468) {
			t.Errorf("agreed on blocks of %d bytes", tr.size)
		}
	})
}
