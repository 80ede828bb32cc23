package ipxe

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"

	"github.com/tinkerbell/ipxedust/binary"

	"bessemer/pxe"
)

// embedded is the script that the UEFI binaries run when they start. It is
// ours in place of the module's, which waits two seconds for a key and ends
// with success: after that, UEFI firmware shows its menu instead of trying the
// next boot option, so a machine could not be sent to its disk.
//
// It asks for an address on the card that the firmware booted from, again and
// again for a while (quirk D-07), and otherwise on all cards. The script that
// DHCP names is fetched again and again too: a switch may block the port just
// then (D-08), or the server may be busy.
//
//go:embed embedded.ipxe
var embedded []byte

// The module's script in the binaries begins and ends with these. undionly.kpxe
// is compressed and keeps it: on a BIOS the way an NBP ends does not matter.
var (
	scriptBegin = []byte("#!ipxe\n\nset user-class Tinkerbell\n")
	scriptEnd   = []byte("echo Failed to find the vlan interface\nshell\n")
)

// Builtin returns the binaries that are built in: BIOS and UEFI for x86-64,
// and UEFI for 64-bit ARM.
func Builtin() Files {
	files := Files{}
	for name, content := range builtin() {
		files[name] = content
	}
	return files
}

var builtin = sync.OnceValue(func() Files {
	files := Files{pxe.NBPBIOS: binary.Undionly}
	for name, content := range map[string][]byte{pxe.NBPX64: binary.IpxeEFI, pxe.NBPARM64: binary.SNP} {
		ours, err := rescript(content, embedded)
		if err != nil {
			ours = content // boots all the same; a test sees to it that this never ships
		}
		files[name] = ours
	}
	return files
})

// rescript returns a copy of an iPXE binary with another embedded script. What
// is left of the old one's room is filled with empty lines.
func rescript(content, script []byte) ([]byte, error) {
	from := bytes.Index(content, scriptBegin)
	if from < 0 {
		return nil, fmt.Errorf("replace embedded script: its beginning is not in the binary")
	}
	n := bytes.Index(content[from:], scriptEnd)
	if n < 0 {
		return nil, fmt.Errorf("replace embedded script: its end is not in the binary")
	}
	n += len(scriptEnd)
	if len(script) > n {
		return nil, fmt.Errorf("replace embedded script: %d bytes do not fit in %d", len(script), n)
	}
	out := bytes.Clone(content)
	room := out[from : from+n]
	copy(room, script)
	for i := len(script); i < n; i++ {
		room[i] = '\n'
	}
	return out, nil
}
