package httpd

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
)

// kernelHead is how much of a kernel image tells its architecture.
const kernelHead = 4 << 10

// buildArchs are the architectures of iPXE, by its word for them (${buildarch})
// and with ours. The i386 one runs on every x86-64 BIOS.
var buildArchs = map[string]string{
	"i386": "x86_64", "x86_64": "x86_64", "arm32": "arm", "arm64": "aarch64", "riscv32": "riscv32", "riscv64": "riscv64", "loong64": "loongarch64",
}

// peMachines are the machine types of a PE header (Microsoft PE format, 3.3.1):
// kernels are EFI programs.
var peMachines = map[uint16]string{
	0x8664: "x86_64", 0x014c: "x86_64", 0x01c2: "arm", 0xaa64: "aarch64", 0x5064: "riscv64", 0x6264: "loongarch64",
}

// kernelArch tells the architecture of a kernel image by its first bytes, ""
// when they do not say.
func kernelArch(head []byte) string {
	if len(head) < 0x210 {
		return ""
	}
	if string(head[:2]) == "MZ" {
		at := uint64(binary.LittleEndian.Uint32(head[0x3c:]))
		if at+6 <= uint64(len(head)) && string(head[at:at+4]) == "PE\x00\x00" {
			return peMachines[binary.LittleEndian.Uint16(head[at+4:])]
		}
	}
	if string(head[0x202:0x206]) == "HdrS" { // x86's boot protocol; a kernel without EFI stub
		return "x86_64"
	}
	return ""
}

// ramdiskArch is the architecture of the ramdisk that is served now, "" when
// there is none or it does not say.
func (h *handler) ramdiskArch() string {
	f, err := h.cfg.Ramdisk(Kernel)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, kernelHead)
	n, _ := io.ReadFull(f, head) // a short one does not say
	return kernelArch(head[:n])
}

// An otherArch is a machine that cannot run the ramdisk; it has said so by
// asking for its script with its own architecture.
type otherArch struct{ machine, ramdisk string }

// Error says what to do: it ends in the log and on the arrow.
func (o otherArch) Error() string {
	return fmt.Sprintf("the machine is %s, the deploy ramdisk is for %s, so it cannot be deployed from here; "+
		"build a ramdisk from a kernel for %s, or take the node out", o.machine, o.ramdisk, o.machine)
}

// refused reads from a script's request that the machine cannot run the
// ramdisk.
func refused(r *http.Request, ramdisk string) (otherArch, bool) {
	machine, known := buildArchs[r.URL.Query().Get("buildarch")]
	return otherArch{machine, ramdisk}, known && ramdisk != "" && machine != ramdisk
}
