package images

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// A kind is what an image file is, by its content.
type kind struct {
	format  string // raw or qcow2, of what is inside when it is packed
	packed  string // gz, zst, xz or ""
	virtual int64  // bytes on the disk, 0 for unknown
}

// headSize is how much of a file is looked at, bytes. It holds the largest
// zstd block, so that something can be unpacked from it.
const headSize = 256 << 10

// inspect says what the image is in a file of size bytes. Images that could
// not be deployed are refused.
func inspect(r io.ReaderAt, size int64) (kind, error) {
	head := make([]byte, min(size, headSize))
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF {
		return kind{}, err
	}
	return inspectHead(head, size)
}

// inspectHead is inspect for the first bytes of a file whose size, if it is
// known, is size; else -1.
func inspectHead(head []byte, size int64) (kind, error) {
	if len(head) == 0 {
		return kind{}, fmt.Errorf("the file is empty: %w", ErrFormat)
	}
	packed := packing(head)
	if packed != "" {
		inside, err := unpack(packed, head)
		if err != nil {
			return kind{}, fmt.Errorf("the file begins as .%s does but cannot be unpacked: %w: %w", packed, ErrFormat, err)
		}
		if p := packing(inside); p != "" {
			return kind{}, fmt.Errorf("the file is packed twice, as .%s in .%s: %w: unpack it once", p, packed, ErrFormat)
		}
		head, size = inside, -1
	}
	k, err := inspectDisk(head, size)
	k.packed = packed
	return k, err
}

func inspectDisk(head []byte, size int64) (kind, error) {
	if bytes.HasPrefix(head, []byte(qcow2Magic)) {
		virtual, err := checkQcow2(head, size)
		if err != nil {
			return kind{}, fmt.Errorf("the qcow2 image %w: %w", err, ErrFormat)
		}
		return kind{format: "qcow2", virtual: virtual}, nil
	}
	if what := foreign(head); what != "" {
		return kind{}, fmt.Errorf("the file is %s: %w: convert it to raw or qcow2", what, ErrFormat)
	}
	return kind{format: "raw", virtual: max(size, 0)}, nil
}

// packing says what a file is packed with, "" for nothing.
func packing(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b\x08")): // RFC 1952 2.3
		return "gz"
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")): // RFC 8878 3.1.1
		return "zst"
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return "xz"
	}
	return ""
}

// foreign names formats that would boot nothing if they were written to a disk
// as they are.
func foreign(head []byte) string {
	for _, f := range []struct {
		at    int
		magic string
		what  string
	}{
		{0, "KDMV", "a VMDK image"},
		{0, "COWD", "a VMDK image"},
		{0, "# Disk DescriptorFile", "a VMDK descriptor"},
		{0, "vhdxfile", "a VHDX image"},
		{0, "conectix", "a VHD image"},
		{64, "\x7f\x10\xda\xbe", "a VDI image"},
		{0, "QED\x00", "a QED image"},
		{0, "PK\x03\x04", "a zip archive"},
		{0, "BZh", "packed with bzip2"},
		{0, "\x04\x22\x4d\x18", "packed with lz4"},
		{0, "7z\xbc\xaf\x27\x1c", "a 7z archive"},
		{257, "ustar", "a tar archive"},
		{0, "version https://git-lfs", "a Git LFS pointer"},
	} {
		if len(head) >= f.at && bytes.HasPrefix(head[f.at:], []byte(f.magic)) {
			return f.what
		}
	}
	start := bytes.ToLower(bytes.TrimSpace(head[:min(len(head), 256)]))
	for _, tag := range []string{"<!doctype", "<html", "<?xml"} {
		if bytes.HasPrefix(start, []byte(tag)) {
			return "a web page, such as a server's error message"
		}
	}
	return ""
}

// unpack returns the first bytes of what is packed in a file that begins with
// head; head breaks off somewhere, so an error counts only when nothing came
// before it.
func unpack(packed string, head []byte) (inside []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			inside, err = nil, fmt.Errorf("%v", r)
		}
	}()
	r, err := unpacker(packed, bytes.NewReader(head))
	if err != nil {
		return nil, err
	}
	inside, err = io.ReadAll(io.LimitReader(r, 64<<10))
	if len(inside) > 0 {
		err = nil
	} else if err == nil {
		err = io.ErrUnexpectedEOF
	}
	if z, ok := r.(*zstd.Decoder); ok {
		z.Close()
	}
	return inside, err
}

// maxWindow is how much memory an unpacker may take for its window, bytes;
// xz -9 and zstd --ultra -22 need 64 and 128 MiB.
const maxWindow = 128 << 20

func unpacker(packed string, r io.Reader) (io.Reader, error) {
	switch packed {
	case "gz":
		return gzip.NewReader(r)
	case "zst":
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	default:
		return xz.NewReader(r, maxWindow)
	}
}

const qcow2Magic = "QFI\xfb"

// Bits of a qcow2 header's incompatible features that a reader can live with:
// refcounts not up to date, another compression, extended L2 entries. A file
// marked as corrupt, one with an external data file, and bits that nobody
// knows, are refused.
const (
	qcowDirty       = 1 << 0
	qcowCorrupt     = 1 << 1
	qcowDataFile    = 1 << 2
	qcowCompression = 1 << 3
	qcowExtendedL2  = 1 << 4
)

const (
	maxVirtual = 1 << 50  // bytes; no disk is larger
	maxL1      = 32 << 20 // bytes, as QEMU's own limit
)

// A qcow2Header is the part of the header that decides whether an image may be
// let near a reader (QEMU's docs/interop/qcow2.txt).
type qcow2Header struct {
	version, clusterBits, crypt, l1Size          uint32
	refOrder, length, snapshots, refClusters     uint32
	backing, size, l1Offset, refOffset, features uint64
	compression                                  byte
}

func parseQcow2(b []byte) (h qcow2Header, ok bool) {
	if len(b) < 512 {
		return h, false
	}
	u32, u64 := binary.BigEndian.Uint32, binary.BigEndian.Uint64
	h = qcow2Header{
		version: u32(b[4:]), backing: u64(b[8:]), clusterBits: u32(b[20:]), size: u64(b[24:]), crypt: u32(b[32:]),
		l1Size: u32(b[36:]), l1Offset: u64(b[40:]), refOffset: u64(b[48:]), refClusters: u32(b[56:]), snapshots: u32(b[60:]),
		refOrder: 4, length: 72,
	}
	if h.version >= 3 {
		h.features, h.refOrder, h.length = u64(b[72:]), u32(b[96:]), u32(b[100:])
	}
	if h.length > 104 {
		h.compression = b[104]
	}
	return h, true
}

// checkQcow2 checks the header of a qcow2 image that begins with head and
// returns the size of its disk. size is that of the file, -1 for unknown. The
// error continues "the qcow2 image".
func checkQcow2(head []byte, size int64) (virtual int64, err error) {
	h, ok := parseQcow2(head)
	if !ok {
		return 0, fmt.Errorf("ends within its header")
	}
	if why := h.dangerous(); why != "" {
		return 0, fmt.Errorf("%s", why)
	}
	if why := h.absurd(size); why != "" {
		return 0, fmt.Errorf("%s", why)
	}
	if head[510] == 0x55 && head[511] == 0xAA {
		return 0, fmt.Errorf("is a boot sector as well: it would be another disk to another reader")
	}
	if hasDataFile(head, h) {
		return 0, fmt.Errorf("has its data in another file")
	}
	return int64(h.size), nil
}

// dangerous says why an image must not be read: it would draw on other files
// or on what we do not know.
func (h qcow2Header) dangerous() string {
	known := uint64(qcowDirty | qcowCorrupt | qcowDataFile | qcowCompression | qcowExtendedL2)
	switch {
	case h.version != 2 && h.version != 3:
		return fmt.Sprintf("has version %d, which is not known", h.version)
	case h.backing != 0:
		return "has a backing file: flatten it with qemu-img convert"
	case h.features&qcowDataFile != 0:
		return "has its data in another file: flatten it with qemu-img convert"
	case h.crypt != 0:
		return "is encrypted: decrypt it first"
	case h.features&qcowCorrupt != 0:
		return "is marked as corrupt: repair it with qemu-img check -r all"
	case h.features&^known != 0:
		return fmt.Sprintf("needs features that are not known (%#x)", h.features&^known)
	}
	return ""
}

// absurd says what in a header cannot be.
func (h qcow2Header) absurd(size int64) string {
	if h.clusterBits < 9 || h.clusterBits > 21 {
		return fmt.Sprintf("has clusters of 2^%d bytes, not 2^9 to 2^21", h.clusterBits)
	}
	cluster, entry := uint64(1)<<h.clusterBits, uint64(8)
	if h.features&qcowExtendedL2 != 0 {
		entry = 16
	}
	perL1 := cluster / entry * cluster // bytes of the disk that an L1 entry stands for
	switch {
	case h.size == 0 || h.size > maxVirtual:
		return fmt.Sprintf("has a disk of %d bytes", h.size)
	case uint64(h.l1Size)*8 > maxL1:
		return fmt.Sprintf("has %d L1 entries", h.l1Size)
	case (h.size+perL1-1)/perL1 > uint64(h.l1Size):
		return fmt.Sprintf("has %d L1 entries, too few for its disk", h.l1Size)
	case h.l1Offset%cluster != 0 || h.refOffset%cluster != 0 || h.l1Offset == 0:
		return "has tables that do not begin with a cluster"
	case size >= 0 && (h.l1Offset > uint64(size) || uint64(h.l1Size)*8 > uint64(size)-h.l1Offset):
		return "ends before its L1 table: it was cut short"
	case h.refOrder > 6 || h.snapshots > 65536 || uint64(h.refClusters)<<h.clusterBits > 8<<20:
		return "has a header that makes no sense"
	case h.version == 3 && (h.length < 104 || h.length%8 != 0 || uint64(h.length) > cluster):
		return fmt.Sprintf("has a header of %d bytes", h.length)
	case (h.features&qcowCompression != 0) != (h.compression != 0) || h.compression > 1:
		return fmt.Sprintf("is compressed in a way (%d) that is not known", h.compression)
	}
	return ""
}

// hasDataFile looks for the header extension that names an external data file,
// which some reader might follow without the feature bit.
func hasDataFile(head []byte, h qcow2Header) bool {
	const dataFile = 0x44415441
	for at := uint64(h.length); at+8 <= uint64(len(head)); {
		kind, n := binary.BigEndian.Uint32(head[at:]), uint64(binary.BigEndian.Uint32(head[at+4:]))
		if kind == dataFile {
			return true
		}
		if kind == 0 {
			return false
		}
		at += 8 + (n+7)/8*8
	}
	return false
}
