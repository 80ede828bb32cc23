package pxe

import "fmt"

// An Arch is a client system architecture (DHCP option 93, RFC 4578, and the
// IANA registry "Processor Architecture Types").
type Arch uint16

// Architectures seen in the field (quirk D-01).
const (
	BIOS      Arch = 0x00
	IA32      Arch = 0x06
	X64       Arch = 0x07
	EBC       Arch = 0x09 // x64 too, in practice
	ARM32     Arch = 0x0a
	ARM64     Arch = 0x0b
	IA32HTTP  Arch = 0x0f
	X64HTTP   Arch = 0x10
	ARM32HTTP Arch = 0x12
	ARM64HTTP Arch = 0x13
	BIOSHTTP  Arch = 0x14
	RPi       Arch = 0x29   // Raspberry Pi boot ROM; it loads its own firmware files
	NoArch    Arch = 0xffff // the client did not say
)

// Names of the network boot programs (NBP). Those that are not built in
// are offered once the data directory has them.
const (
	NBPBIOS  = "undionly.kpxe"
	NBPX64   = "ipxe.efi"
	NBPARM64 = "snp.efi"
	NBPIA32  = "ipxe-ia32.efi" // not built in
	NBPARM32 = "snp-arm32.efi" // not built in
)

type archInfo struct {
	name string // as stored and shown
	nbp  string
	http bool // asks for a URL (UEFI HTTP boot) instead of a TFTP file
}

var archs = map[Arch]archInfo{
	BIOS:      {"bios", NBPBIOS, false},
	IA32:      {"ia32-uefi", NBPIA32, false},
	X64:       {"x64-uefi", NBPX64, false},
	EBC:       {"x64-uefi", NBPX64, false},
	ARM32:     {"arm32-uefi", NBPARM32, false},
	ARM64:     {"arm64-uefi", NBPARM64, false},
	IA32HTTP:  {"ia32-http", NBPIA32, true},
	X64HTTP:   {"x64-http", NBPX64, true},
	ARM32HTTP: {"arm32-http", NBPARM32, true},
	ARM64HTTP: {"arm64-http", NBPARM64, true},
	BIOSHTTP:  {"bios-http", NBPBIOS, true},
	RPi:       {"rpi", "", false},
	NoArch:    {"", "", false},
}

// String returns the name under which an architecture is stored and shown:
// bios, x64-uefi, x64-http, ...; "" for NoArch.
func (a Arch) String() string {
	if i, ok := archs[a]; ok {
		return i.name
	}
	return fmt.Sprintf("arch-0x%02x", uint16(a))
}

// NBP returns the file name of the boot program for a, or "" if there is none.
func (a Arch) NBP() string { return archs[a].nbp }

// HTTP reports whether a is a firmware that boots from a URL.
func (a Arch) HTTP() bool { return archs[a].http }
