// Package tinyos is a tiny operating system for simulated machines: the image
// that is deployed to them, and how a machine boots what is on its disk.
//
// The image is a real one. UEFI firmware starts its loader, a BIOS its boot
// code; both print a line and halt. It suits disks with sectors of 512 bytes
// and of 4096. [Start] reads disks as firmware and cloud-init do, and shares no
// code with the agent that wrote them, so neither hides the other's mistakes.
package tinyos

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"sync"

	"bessemer/agent/disk"
)

// Layout of the images, in bytes. Everything lies on borders of 4096.
const (
	tableSize = 128 * 128 // entries of a GPT

	header4K   = 4096
	entries4K  = 2 * 4096
	entries512 = entries4K + tableSize
	espStart   = 64 << 10
	espEnd     = 512 << 10
	rootStart  = espEnd
	rootEnd    = 1152 << 10
	imageSize  = 1216 << 10
)

// rootName is the name of the partition that the system itself is on.
const rootName = "bessemer-tiny"

// rootMagic begins that partition. The disk identifier that an MBR must still
// have follows, 0 for a GPT; then the SHA-256 of the rest.
const rootMagic = "BSMRTINY"

// rootHead is the length of the partition's header.
const rootHead = 48

// mbrDiskID is the disk identifier of [MBRImage].
const mbrDiskID = 0xb55e3e12

// Image is a whole-disk raw image with a GPT, an EFI system partition and boot
// code for BIOS. It is the same bytes at any time; do not change them.
var Image = sync.OnceValue(func() []byte {
	image := blank(0)
	binary.LittleEndian.PutUint32(image[440:], 0)
	protect(image)
	writeTables(image)
	return image
})

// MBRImage is the same system with an MBR instead of a GPT, whose partitions
// are active FAT and Linux. It boots only while its disk identifier is what it
// was (K-04).
var MBRImage = sync.OnceValue(func() []byte {
	image := blank(mbrDiskID)
	le := binary.LittleEndian
	le.PutUint32(image[440:], mbrDiskID)
	for i, p := range []struct {
		active, kind byte
		start, end   uint32
	}{{0x80, 0xef, espStart, espEnd}, {0, 0x83, rootStart, rootEnd}} {
		e := image[446+16*i:]
		copy(e, []byte{p.active, 0xfe, 0xff, 0xff, p.kind, 0xfe, 0xff, 0xff})
		le.PutUint32(e[8:], p.start/512)
		le.PutUint32(e[12:], (p.end-p.start)/512)
	}
	return image
})

// blank is an image with everything but a partition table.
func blank(diskID uint32) []byte {
	image := make([]byte, imageSize)
	copy(image, bootCode())
	image[510], image[511] = 0x55, 0xaa
	esp, err := disk.MakeFAT(map[string][]byte{"EFI/BOOT/BOOTX64.EFI": loader()}, "TINY-ESP", 4096)
	if err != nil {
		panic("make EFI system partition of the tiny image: " + err.Error()) // constants in, constants out
	}
	copy(image[espStart:espEnd], esp)
	copy(image[rootStart:rootEnd], root(diskID))
	return image
}

// root is the system's own partition: data that is not zero, and how to tell
// that it is whole.
func root(diskID uint32) []byte {
	b := make([]byte, 600<<10) // the rest of the partition is zeros
	rand.NewChaCha8([32]byte([]byte("the tiny system of a simulation!"))).Read(b[rootHead:])
	clear(b[200<<10 : 400<<10]) // a hole, as real file systems have
	copy(b, rootMagic)
	binary.LittleEndian.PutUint32(b[8:], diskID)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)))
	sum := sha256.Sum256(b[rootHead:])
	copy(b[16:], sum[:])
	return b
}

// message is what both loaders print.
const message = "Bessemer tiny system: booted.\r\n"

// bootCode is the MBR's: it prints the message to the screen and to the first
// serial port, and halts.
func bootCode() []byte {
	code := []byte{
		0xfa,       // cli
		0x31, 0xc0, // xor ax, ax
		0x8e, 0xd8, // mov ds, ax
		0x8e, 0xd0, // mov ss, ax
		0xbc, 0x00, 0x7c, // mov sp, 0x7c00
		0xfb,       // sti
		0xfc,       // cld
		0xbe, 0, 0, // mov si, message
		0xac,       // next: lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x0f, // jz halt
		0x50,       // push ax
		0xb4, 0x0e, // mov ah, 0x0e
		0xbb, 0x07, 0x00, // mov bx, 7
		0xcd, 0x10, // int 0x10
		0x58,             // pop ax
		0xba, 0xf8, 0x03, // mov dx, 0x3f8
		0xee,       // out dx, al
		0xeb, 0xec, // jmp next
		0xf4,       // halt: hlt
		0xeb, 0xfd, // jmp halt
	}
	binary.LittleEndian.PutUint16(code[bytes.IndexByte(code, 0xbe)+1:], uint16(0x7c00+len(code)))
	return append(append(code, message...), 0)
}
