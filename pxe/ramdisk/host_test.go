package ramdisk

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

const version = "6.1.0-57-amd64"

// elfFile makes an ELF file: with a .modinfo section it is a kernel module,
// with an interpreter a dynamic program.
func elfFile(t *testing.T, machine elf.Machine, modinfo []string, dynamic bool) []byte {
	t.Helper()
	info := []byte(strings.Join(modinfo, "\x00") + "\x00")
	names := []byte("\x00.modinfo\x00.shstrtab\x00")
	const head, prog, section = 64, 56, 64
	offInfo := uint64(head + prog)
	offNames := offInfo + uint64(len(info))
	offSections := offNames + uint64(len(names))
	kind := elf.PT_LOAD
	if dynamic {
		kind = elf.PT_INTERP
	}
	var b bytes.Buffer
	w := func(v any) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	h := elf.Header64{
		Type: uint16(elf.ET_REL), Machine: uint16(machine), Version: 1, Phoff: head, Shoff: offSections,
		Ehsize: head, Phentsize: prog, Phnum: 1, Shentsize: section, Shnum: 3, Shstrndx: 2,
	}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	w(h)
	w(elf.Prog64{Type: uint32(kind), Off: offInfo, Filesz: 1, Memsz: 1})
	b.Write(info)
	b.Write(names)
	w(elf.Section64{})
	w(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: offInfo, Size: uint64(len(info))})
	w(elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: offNames, Size: uint64(len(names))})
	return b.Bytes()
}

// kernelImage has x86's header with its version.
func kernelImage(version string) []byte {
	b := make([]byte, 0x400)
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x20e:], 0x100)
	copy(b[0x300:], version+" (builder@host) #1 SMP\x00")
	return b
}

// compressed is data as distributions store it, by the file's name.
func compressed(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch filepath.Ext(name) {
	case ".xz":
		w, err = xz.NewWriter(&b)
	case ".gz":
		w = gzip.NewWriter(&b)
	case ".zst":
		w, err = zstd.NewWriter(&b)
	default:
		return data
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// host is a directory with a kernel, modules, firmware and certificates.
type host struct {
	*testing.T
	root string
}

func (h host) write(name string, data []byte) string {
	h.Helper()
	file := filepath.Join(h.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(file, compressed(h.T, name, data), 0o644); err != nil {
		h.Fatal(err)
	}
	return file
}

func (h host) module(path string, modinfo ...string) {
	h.Helper()
	modinfo = append(modinfo, "vermagic="+version+" SMP preempt mod_unload modversions ")
	h.write("lib/modules/"+version+"/kernel/"+path, elfFile(h.T, elf.EM_X86_64, modinfo, false))
}

func newHost(t *testing.T) host {
	h := host{t, t.TempDir()}
	h.write("boot/vmlinuz-"+version, kernelImage(version))
	h.write("boot/config-"+version, []byte("CONFIG_RD_GZIP=y\nCONFIG_RD_ZSTD=y\n"))
	h.module("drivers/net/virtio_net.ko", "depends=net_failover", "alias=virtio:d00000001v*")
	h.module("net/core/net_failover.ko.zst", "depends=failover")
	h.module("net/core/failover.ko.gz", "depends=")
	h.module("drivers/net/ethernet/broadcom/bnx2x/bnx2x.ko.xz", "depends=libcrc32c,mdio", "alias=pci:v000014E4d0000164Esv*sd*bc*sc*i*",
		"firmware=bnx2x/bnx2x-e2-7.13.21.0.fw", "firmware=bnx2x/missing.fw", "firmware=bnx2/*.fw", "firmware=../../etc/shadow")
	h.module("lib/libcrc32c.ko", "softdep=pre: crc32c")
	h.module("crypto/crc32c_generic.ko", "alias=crc32c", "alias=crypto-crc32c-generic")
	h.module("arch/x86/crypto/crc32c-intel.ko", "alias=crc32c")
	h.module("sound/core/snd.ko")
	h.module("drivers/net/dummy.ko")
	h.write("lib/modules/"+version+"/modules.builtin", []byte("kernel/net/packet/af_packet.ko\nkernel/fs/nls/nls_base.ko\n"))
	h.write("lib/firmware/bnx2x/bnx2x-e2-7.13.21.0.fw.xz", []byte("firmware"))
	h.write("lib/firmware/bnx2/a.fw", []byte("a"))
	h.write("lib/firmware/bnx2/b.fw", []byte("b"))
	h.write("etc/shadow", []byte("secret"))
	h.write("certs.pem", []byte("-----BEGIN CERTIFICATE-----\n"))
	return h
}

func (h host) options() Options {
	return Options{
		Kernel: filepath.Join(h.root, "boot/vmlinuz-"+version), ModulesDir: filepath.Join(h.root, "lib/modules", version),
		FirmwareDir: filepath.Join(h.root, "lib/firmware"), Certificates: filepath.Join(h.root, "certs.pem"),
		Agent: elfFile(h.T, elf.EM_X86_64, []string{"agent"}, false), Modules: []string{"dummy"},
	}
}
