package pxe

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
	NoArch    Arch = 0xffff // the client did not say
)
