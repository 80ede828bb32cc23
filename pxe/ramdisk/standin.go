package ramdisk

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
)

// Sizes of a stand-in, in bytes: a small part of what a ramdisk has, so that a
// thousand simulated boots are cheap.
const (
	standInKernel = 512 << 10
	standInInitrd = 1 << 20
)

const standInNote = "This stands in for Bessemer's deploy ramdisk. Simulated machines fetch it and\n" +
	"compare its checksum; it has neither a kernel nor an agent, and boots nothing.\n"

// StandIn makes what simulated machines fetch where no ramdisk has been built:
// a file with the headers of an x86-64 kernel, which boots nothing, and a cpio
// archive. They are always the same.
func StandIn() (kernel, initrd []byte) {
	return standInImage(), standInArchive()
}

// standInImage has what boot loaders look at: the PE header of an EFI program
// and the header of x86's boot protocol (Documentation/arch/x86/boot.rst) with
// the version text behind it.
func standInImage() []byte {
	b := filler(standInKernel, 1)
	clear(b[:0x1000])
	copy(b, "MZ")
	binary.LittleEndian.PutUint32(b[0x3c:], 0x80) // where the PE header is
	copy(b[0x80:], "PE\x00\x00")
	binary.LittleEndian.PutUint16(b[0x84:], 0x8664) // x86-64
	b[0x1f1] = 7                                    // setup_sects: the setup code ends at 0x1000
	binary.LittleEndian.PutUint16(b[0x1fe:], 0xaa55)
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x206:], 0x020f)      // protocol 2.15
	binary.LittleEndian.PutUint16(b[0x20e:], 0x400-0x200) // kernel_version, from 0x200 on
	copy(b[0x400:], "0.0.0-standin (simulated machines)\x00")
	copy(b[0x500:], standInNote)
	return b
}

func standInArchive() []byte {
	var out bytes.Buffer
	w := newCPIO(&out)
	for _, e := range []entry{
		{name: "init", mode: typeFile | 0o755, data: []byte(standInNote)},
		{name: "usr/share/bessemer/filler", mode: typeFile | 0o644, data: filler(standInInitrd, 2)},
	} {
		_ = w.add(e) // a bytes.Buffer takes everything
	}
	_ = w.close()
	return out.Bytes()
}

// filler is what does not compress, since ramdisks do not either.
func filler(n int, seed uint64) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b) // never fails
	return b
}
