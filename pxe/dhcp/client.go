package dhcp

import (
	"encoding/hex"
	"net"
	"slices"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"bessemer/pxe"
)

// A client is who sent a packet, and what it says of itself.
type client struct {
	key      string // MAC, or "id:" and the client id in hex where there is no MAC
	mac      net.HardwareAddr
	enrolled bool
	node     string
	noBoot   bool // its port has pxe_enabled=false (quirk D-28)

	arch   pxe.Arch
	wants  want
	vendor string // option 60
	user   string // option 77, readable
	uuid   string // option 97
}

// A want is the kind of boot answer that a client understands.
type want int

const (
	wantsNothing want = iota // an operating system or the agent: an address only
	wantsTFTP                // PXE firmware: the name of a boot program
	wantsURL                 // UEFI HTTP boot: the URL of a boot program
	wantsScript              // iPXE: the URL of a script
)

const (
	vendorPXE   = "PXEClient"
	vendorHTTP  = "HTTPClient"
	vendorProbe = "bessemer-probe" // our own doctor; never answered

	optionIPXE    = dhcpv4.GenericOptionCode(175) // iPXE's encapsulated options
	maxShownClass = 64
)

// identify reads who the client is from a packet.
func identify(req *dhcpv4.DHCPv4) (client, bool) {
	c := client{
		vendor: printable(req.Options.Get(dhcpv4.OptionClassIdentifier)),
		user:   userClass(req.Options.Get(dhcpv4.OptionUserClassInformation)),
		arch:   arch(req),
	}
	if id := req.Options.Get(dhcpv4.OptionClientMachineIdentifier); len(id) == 17 && id[0] == 0 {
		c.uuid = pxe.UUIDFromSMBIOS(id[1:])
	}
	c.wants = c.kind(req)
	if len(req.ClientHWAddr) == 6 {
		c.mac = req.ClientHWAddr
		c.key = c.mac.String()
		return c, c.key != "00:00:00:00:00:00" && c.mac[0]&1 == 0
	}
	// InfiniBand gives no MAC (RFC 4390); its client id is the identity.
	id := req.Options.Get(dhcpv4.OptionClientIdentifier)
	if len(id) < 2 || len(id) > 64 {
		return c, false
	}
	c.key = "id:" + hex.EncodeToString(id)
	return c, true
}

// kind tells iPXE from firmware. iPXE calls itself PXEClient too (quirk D-05)
// and is known by its user class, or by the options that only it sends; the
// embedded script of the built-in binaries changes the user class. A network
// card's own iPXE is as good as ours.
func (c *client) kind(req *dhcpv4.DHCPv4) want {
	switch {
	case slices.Contains(ipxeClasses, c.user), req.Options.Has(optionIPXE):
		return wantsScript
	case strings.HasPrefix(c.vendor, vendorHTTP), c.arch.HTTP() && c.vendor == "":
		return wantsURL
	case strings.HasPrefix(c.vendor, vendorPXE):
		return wantsTFTP
	}
	return wantsNothing
}

// ipxeClasses are the user classes of iPXE itself and of the built-in binaries'
// embedded scripts, UEFI and BIOS.
var ipxeClasses = []string{"iPXE", "Bessemer", "Tinkerbell"}

// piOUIs are the address blocks of Raspberry Pi boards, whose boot ROM calls
// itself architecture 0, an x86 BIOS (quirk D-02).
var piOUIs = []string{"28:cd:c1", "2c:cf:67", "b8:27:eb", "d8:3a:dd", "dc:a6:32", "e4:5f:01"}

func arch(req *dhcpv4.DHCPv4) pxe.Arch {
	a := pxe.NoArch
	if raw := req.Options.Get(dhcpv4.OptionClientSystemArchitectureType); len(raw) >= 2 {
		a = pxe.Arch(raw[0])<<8 | pxe.Arch(raw[1])
	} else if v, ok := strings.CutPrefix(printable(req.Options.Get(dhcpv4.OptionClassIdentifier)), vendorPXE+":Arch:"); ok && len(v) >= 5 {
		a = archDigits(v[:5])
	} else if printable(req.Options.Get(dhcpv4.OptionClassIdentifier)) == vendorPXE {
		a = pxe.BIOS // a ROM from before PXE 2.1
	}
	if a == pxe.BIOS && len(req.ClientHWAddr) == 6 {
		for _, oui := range piOUIs {
			if strings.HasPrefix(req.ClientHWAddr.String(), oui) {
				return pxe.RPi
			}
		}
	}
	return a
}

// archDigits reads the five decimal digits of "PXEClient:Arch:00007:UNDI:…".
func archDigits(s string) pxe.Arch {
	n := 0
	for _, d := range []byte(s) {
		if d < '0' || d > '9' {
			return pxe.NoArch
		}
		n = n*10 + int(d-'0')
	}
	if n > 0xffff {
		return pxe.NoArch
	}
	return pxe.Arch(n)
}

// userClass reads option 77. iPXE sends the bare word against RFC 3004, which
// wants each class after its length.
func userClass(raw []byte) string {
	if len(raw) > 1 && int(raw[0]) <= len(raw)-1 && raw[0] > 0 && raw[0] < ' ' {
		raw = raw[1 : 1+int(raw[0])]
	}
	return printable(raw)
}

// printable keeps the printable ASCII of a client's text, at most 64 bytes: it
// ends in logs, records and the dashboard.
func printable(raw []byte) string {
	var b strings.Builder
	for _, c := range raw {
		if b.Len() == maxShownClass {
			break
		}
		if ' ' <= c && c <= '~' {
			b.WriteByte(c)
		}
	}
	return b.String()
}
