package firmware

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// A persona is who a DHCP client says it is.
type persona struct {
	arch  uint16 // option 93
	noAr  bool   // it leaves that out
	http  bool   // HTTPClient, not PXEClient
	ipxe  bool   // it sends iPXE's features
	user  string // option 77
	plain bool   // an operating system: none of all this
}

// class is option 60.
func (p persona) class() string {
	name, undi := "PXEClient", 3016
	if p.http {
		name = "HTTPClient"
	}
	switch {
	case p.ipxe:
		undi = 3010
	case p.arch == 0:
		undi = 2001
	}
	return fmt.Sprintf("%s:Arch:%05d:UNDI:%06d", name, p.arch, undi)
}

// romWants and ipxeWants are the parameter request lists (option 55) of
// firmware and of iPXE.
var (
	romWants  = []byte{1, 2, 3, 4, 5, 6, 12, 13, 15, 17, 18, 22, 23, 28, 40, 41, 42, 43, 50, 51, 54, 58, 59, 60, 66, 67, 97, 128, 129, 130, 131, 132, 133, 134, 135}
	ipxeWants = []byte{1, 3, 6, 7, 12, 15, 17, 26, 43, 60, 66, 67, 119, 128, 129, 130, 131, 132, 133, 134, 135, 175, 203}
)

// ipxeFeatures are iPXE's encapsulated options (175): its version, and that
// it can do HTTP, DNS, TFTP, bzImage, EFI, menus.
var ipxeFeatures = []byte{
	0xb1, 5, 1, 0x80, 0x86, 0x10, 0x0e, // bus id of the card
	0xeb, 3, 1, 21, 1,
	0x13, 1, 1, 0x17, 1, 1, 0x15, 1, 1, 0x18, 1, 1, 0x24, 1, 1, 0x27, 1, 1,
}

// packet makes a message of the given type.
func (m *machine) packet(t dhcpv4.MessageType, p persona, mods ...dhcpv4.Modifier) (*dhcpv4.DHCPv4, error) {
	all := []dhcpv4.Modifier{dhcpv4.WithMessageType(t), dhcpv4.WithHwAddr(m.MAC), option(57, []byte{5, 192})}
	if !p.plain {
		all = append(all, m.identity(p)...)
	}
	d, err := dhcpv4.New(append(all, mods...)...)
	if err != nil {
		return nil, fmt.Errorf("make dhcp packet: %w", err)
	}
	binary.BigEndian.PutUint32(d.TransactionID[:], m.rand.Uint32())
	if m.on("D-26") {
		d.GatewayIPAddr, d.HopCount = net.IP(relay.AsSlice()), 1
		d.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionRelayAgentInformation, relayInfo))
	}
	return d, nil
}

// identity is what firmware tells of itself (RFC 4578).
func (m *machine) identity(p persona) []dhcpv4.Modifier {
	ndi := []byte{1, 3, 16}
	if p.arch == 0 {
		ndi = []byte{1, 2, 1}
	}
	mods := []dhcpv4.Modifier{option(60, []byte(p.class())), option(94, ndi), option(97, smbios(m.UUID))}
	if !p.noAr {
		mods = append(mods, option(93, binary.BigEndian.AppendUint16(nil, p.arch)))
	}
	if p.user != "" {
		mods = append(mods, option(77, []byte(p.user)))
	}
	if !p.ipxe {
		return append(mods, option(55, romWants))
	}
	return append(mods, option(55, ipxeWants), option(61, append([]byte{1}, m.MAC...)), option(175, ipxeFeatures))
}

func option(code uint8, value []byte) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(code), value))
}

// smbios is option 97: type 0, and the UUID with its first three fields little
// endian. A machine without UUID has zeros.
func smbios(uuid string) []byte {
	out := make([]byte, 17)
	raw, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(raw) != 16 {
		return out
	}
	for i, j := range []int{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15} {
		out[1+i] = raw[j]
	}
	return out
}

// relay is the relay agent between a machine and us with D-26, in the network
// of simulated machines, and relayInfo what it adds (option 82).
var (
	relay     = netip.AddrFrom4([4]byte{127, 64, 0, 1})
	relayInfo = []byte("\x01\x04eth7\x02\x06rack-a")
)

// bytes are what goes onto the wire. Some ROMs forget the END option and pad
// with zeros (D-20).
func (m *machine) bytes(d *dhcpv4.DHCPv4) []byte {
	b := d.ToBytes()
	if !m.on("D-20") {
		return b
	}
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == 255 {
			b[i] = 0
			break
		}
	}
	return b
}
