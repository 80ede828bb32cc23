package image

import (
	"encoding/binary"
	"fmt"
)

const qcowMagic = "QFI\xfb"

// qcowHeader is what matters of a qcow2 header after checkQcow has found it
// harmless.
type qcowHeader struct {
	size        int64 // of the disk image
	clusterBits uint32
	zstd        bool
}

// Bits of incompatible_features.
const (
	qcowDirty = 1 << iota
	qcowCorrupt
	qcowDataFile
	qcowCompression
	qcowExtendedL2
)

// maxL1 is the largest level 1 table in bytes, qemu's own limit.
const maxL1 = 32 << 20

// checkQcow looks at a qcow2 header before any library does (H21, H22). It
// refuses everything that makes a reader open another file, that asks for much
// memory, or that we do not know.
func checkQcow(head []byte) (qcowHeader, error) {
	if len(head) < 104 || !has(head, 0, qcowMagic) {
		return qcowHeader{}, refuse("the header is cut short")
	}
	be := binary.BigEndian
	version := be.Uint32(head[4:])
	h := qcowHeader{size: int64(be.Uint64(head[24:])), clusterBits: be.Uint32(head[20:])}
	switch {
	case version == 1:
		return h, refuse("version 1 is not supported; convert it with: qemu-img convert -O qcow2")
	case version != 2 && version != 3:
		return h, refuse("version %d is unknown", version)
	case be.Uint64(head[8:]) != 0 || be.Uint32(head[16:]) != 0:
		return h, refuse("it has a backing file; flatten it with: qemu-img convert -O qcow2")
	case be.Uint32(head[32:]) != 0:
		return h, refuse("it is encrypted")
	case h.clusterBits < 9 || h.clusterBits > 21:
		return h, refuse("cluster_bits is %d, must be 9 to 21", h.clusterBits)
	case h.size <= 0:
		return h, refuse("its disk size is %d bytes", be.Uint64(head[24:]))
	}
	if err := checkL1(h, uint64(be.Uint32(head[36:])), be.Uint64(head[40:])); err != nil {
		return h, err
	}
	if version == 2 {
		return h, checkExtensions(head, 72)
	}
	return checkVersion3(h, head)
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: qcow2: %w", ErrFormat, fmt.Errorf(format, args...))
}

// checkL1 holds the level 1 table against the disk size.
func checkL1(h qcowHeader, entries, offset uint64) error {
	covers := uint64(1) << (2*h.clusterBits - 3) // bytes of disk that one entry stands for
	need := (uint64(h.size)-1)/covers + 1
	switch {
	case entries*8 > maxL1 || need*8 > maxL1:
		return refuse("its level 1 table has %d entries, needs %d, may have %d", entries, need, maxL1/8)
	case entries < need:
		return refuse("its level 1 table has %d entries, the disk size needs %d", entries, need)
	case offset == 0 || offset > 1<<56 || offset%(1<<h.clusterBits) != 0:
		return refuse("its level 1 table is at %d, which is not a cluster", offset)
	}
	return nil
}

func checkVersion3(h qcowHeader, head []byte) (qcowHeader, error) {
	be := binary.BigEndian
	features, length := be.Uint64(head[72:]), be.Uint32(head[100:])
	if err := checkFeatures(features); err != nil {
		return h, err
	}
	if length < 104 || length > 4096 || length%8 != 0 || int(length) > len(head) {
		return h, refuse("its header is %d bytes long", length)
	}
	method := byte(0)
	if length > 104 {
		method = head[104]
	}
	switch {
	case method > 1:
		return h, refuse("its compression type %d is unknown", method)
	case (method != 0) != (features&qcowCompression != 0):
		return h, refuse("its compression type contradicts its feature bits")
	}
	h.zstd = method == 1
	return h, checkExtensions(head, length)
}

func checkFeatures(f uint64) error {
	switch {
	case f&qcowDataFile != 0:
		return refuse("its data is in another file; convert it with: qemu-img convert -O qcow2")
	case f&(qcowDirty|qcowCorrupt) != 0:
		return refuse("it was not closed properly or is corrupt; see: qemu-img check -r all")
	case f&qcowExtendedL2 != 0:
		return refuse("extended L2 entries are not supported; convert it with: qemu-img convert -O qcow2")
	case f&^uint64(qcowCompression) != 0:
		return refuse("incompatible features %#x are unknown", f)
	}
	return nil
}

// checkExtensions refuses header extensions that name other files or keys.
func checkExtensions(head []byte, off uint32) error {
	be := binary.BigEndian
	for range 64 {
		if uint64(off)+8 > uint64(len(head)) {
			return nil // none, or the library stops here too
		}
		kind, n := be.Uint32(head[off:]), be.Uint32(head[off+4:])
		switch {
		case kind == 0:
			return nil
		case kind == 0x44415441:
			return refuse("it names an external data file")
		case kind == 0x0537be77:
			return refuse("it is encrypted")
		case n > uint32(len(head)):
			return refuse("a header extension is %d bytes long", n)
		}
		off += 8 + (n+7)&^7
	}
	return refuse("it has more than 64 header extensions")
}
