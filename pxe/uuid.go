package pxe

import "fmt"

// UUIDFromSMBIOS returns the canonical form of the 16 bytes in which SMBIOS
// (and with it DHCP option 97) gives a UUID: the first three fields are little
// endian (SMBIOS 2.6, section 7.2.1). It returns "" for a machine that has
// none (all bytes 00 or ff) and for any other length.
func UUIDFromSMBIOS(b []byte) string {
	if len(b) != 16 {
		return ""
	}
	var or, and byte = 0, 0xff
	for _, c := range b {
		or |= c
		and &= c
	}
	if or == 0 || and == 0xff {
		return ""
	}
	return fmt.Sprintf("%02x%02x%02x%02x-%02x%02x-%02x%02x-%x-%x",
		b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8:10], b[10:16])
}
