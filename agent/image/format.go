package image

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// A Format is how a disk image is laid out.
type Format string

// Formats that are written.
const (
	Raw   Format = "raw"
	Qcow2 Format = "qcow2"
)

// headSize is how much of a file the decision about its format needs: beyond
// ISO 9660's volume descriptor at 32 KiB.
const headSize = 64 << 10

// A mark is what tells a format by its content.
type mark struct {
	off   int
	magic string
	name  string
}

// foreign are formats that would boot nothing if they were written byte for
// byte. They are refused by name.
var foreign = []mark{
	{0, "KDMV", "a VMDK image"},
	{0, "COWD", "a VMDK image"},
	{0, "# Disk DescriptorFile", "a VMDK descriptor"},
	{0, "vhdxfile", "a VHDX image"},
	{0, "conectix", "a VHD image"},
	{64, "\x7f\x10\xda\xbe", "a VDI image"},
	{0, "QED\x00", "a QED image"},
	{0, "WithoutFreeSpace", "a Parallels image"},
	{0, "WithouFreSpacExt", "a Parallels image"},
	{0, "Bochs Virtual HD Image", "a Bochs image"},
	{0, "PK\x03\x04", "a zip archive"},
	{0, "BZh", "packed with bzip2"},
	{0, "\x04\x22\x4d\x18", "packed with lz4"},
	{0, "7z\xbc\xaf\x27\x1c", "a 7z archive"},
	{0, "Rar!\x1a\x07", "a rar archive"},
	{257, "ustar", "a tar archive"},
	{0, "\x1f\x8b\x08", "packed with gzip, a second time"},
	{0, "\x28\xb5\x2f\xfd", "packed with zstd, a second time"},
	{0, "\xfd7zXZ\x00", "packed with xz, a second time"},
	{0, "<!DOCTYPE", "an HTML page"},
	{0, "<html", "an HTML page"},
	{0, "version https://git-lfs", "a Git LFS pointer"},
}

// detect decides by content what an unpacked image is. The claim of who named
// the image can only make it refuse (OSSA-2024-002), and so can a file that is
// two things at once.
func detect(head []byte, o Options) (Format, error) {
	f, err := detectContent(head)
	if err != nil {
		return "", err
	}
	if claim := strings.ToLower(o.Claim); claim != "" && (claim == "qcow2") != (f == Qcow2) {
		return "", fmt.Errorf("%w: it is said to be %s, its content is %s; correct image_disk_format or the image", ErrFormat, o.Claim, f)
	}
	if len(o.Permitted) > 0 && !permitted(f, o.Permitted) {
		return "", fmt.Errorf("%w: %s is not one of the permitted formats %s", ErrFormat, f, strings.Join(o.Permitted, ", "))
	}
	return f, nil
}

func detectContent(head []byte) (Format, error) {
	if len(head) == 0 {
		return "", fmt.Errorf("%w: the file is empty", ErrFormat)
	}
	if has(head, 0, qcowMagic) {
		if bootSector(head) {
			return "", fmt.Errorf("%w: the file is a qcow2 image and has a boot sector; it means different things to different readers", ErrFormat)
		}
		return Qcow2, nil
	}
	if bootSector(head) { // chance may put any of the marks into boot code
		return Raw, nil
	}
	for _, m := range foreign {
		if has(head, m.off, m.magic) {
			return "", fmt.Errorf("%w: the file is %s; convert it with: qemu-img convert -O qcow2", ErrFormat, m.name)
		}
	}
	return Raw, nil
}

func has(b []byte, off int, magic string) bool {
	return len(b) >= off+len(magic) && string(b[off:off+len(magic)]) == magic
}

func bootSector(head []byte) bool {
	return len(head) >= 512 && bytes.Equal(head[510:512], []byte{0x55, 0xaa})
}

// permitted: Ironic says raw, gpt and iso for what we write byte for byte.
func permitted(f Format, list []string) bool {
	if slices.Contains(list, string(f)) {
		return true
	}
	return f == Raw && (slices.Contains(list, "gpt") || slices.Contains(list, "iso"))
}
