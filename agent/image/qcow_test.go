package image

import (
	"bytes"
	"encoding/binary"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// qcowFile makes qcow2 files, good and bad ones. The fields are what the header
// gets; zero values are those of a good version 3 file with 64 KiB clusters.
type qcowFile struct {
	version     uint32
	bits        uint32
	data        []byte // of the disk
	compress    string // "", zlib, zstd
	size        uint64 // 0: len(data)
	backing     string
	crypt       uint32
	features    uint64
	l1Size      uint32
	l1Offset    uint64
	extension   uint32
	extData     string
	l1Entry     uint64 // replaces every level 1 entry
	l2Entry     uint64 // replaces every level 2 entry
	garble      bool   // compressed clusters are garbage
	headerBytes uint32
}

// bytes lays the file out: header, level 1 table, level 2 tables, clusters.
func (q qcowFile) bytes() []byte {
	if q.version == 0 {
		q.version = 3
	}
	if q.bits == 0 {
		q.bits = 16
	}
	cluster := 1 << q.bits
	if q.bits < 9 || q.bits > 21 {
		cluster = 1 << 16
	}
	perL2 := cluster / 8
	clusters := (len(q.data) + cluster - 1) / cluster
	tables := (clusters + perL2 - 1) / perL2
	l1Clusters := (tables*8 + cluster - 1) / cluster
	be := binary.BigEndian
	out := make([]byte, cluster*(1+l1Clusters+tables))
	l1 := out[cluster:]
	for t := range tables {
		e := uint64(cluster*(1+l1Clusters+t)) | 1<<63
		if q.l1Entry != 0 {
			e = q.l1Entry
		}
		be.PutUint64(l1[8*t:], e)
	}
	for c := range clusters {
		piece := make([]byte, cluster)
		copy(piece, q.data[c*cluster:])
		at := cluster*(1+l1Clusters+c/perL2) + 8*(c%perL2)
		switch {
		case q.l2Entry != 0:
			be.PutUint64(out[at:], q.l2Entry)
		case bytes.Equal(piece, make([]byte, cluster)):
		case q.compress != "":
			packed := q.pack(piece)
			x := 62 - (q.bits - 8)
			off := uint64(len(out))
			sectors := (off%512 + uint64(len(packed)) - 1) / 512
			be.PutUint64(out[at:], 1<<62|sectors<<x|off)
			out = append(out, packed...)
		default:
			be.PutUint64(out[at:], uint64(len(out))|1<<63)
			out = append(out, piece...)
		}
		if q.compress == "" && len(out)%cluster != 0 {
			panic("clusters must be aligned")
		}
	}
	q.header(out, uint32(tables), uint64(cluster))
	return out
}

func (q qcowFile) pack(p []byte) []byte {
	if q.garble {
		return bytes.Repeat([]byte{0xff, 0x13}, 700)
	}
	var b bytes.Buffer
	if q.compress == "zstd" {
		e, _ := zstd.NewWriter(nil)
		return e.EncodeAll(p, nil)
	}
	w, _ := flate.NewWriter(&b, 6)
	w.Write(p)
	w.Close()
	return b.Bytes()
}

func (q qcowFile) header(h []byte, l1 uint32, l1At uint64) {
	be := binary.BigEndian
	copy(h, qcowMagic)
	be.PutUint32(h[4:], q.version)
	be.PutUint32(h[20:], q.bits)
	be.PutUint64(h[24:], uint64(len(q.data)))
	if q.size != 0 {
		be.PutUint64(h[24:], q.size)
	}
	be.PutUint32(h[32:], q.crypt)
	be.PutUint32(h[36:], l1)
	if q.l1Size != 0 {
		be.PutUint32(h[36:], q.l1Size)
	}
	be.PutUint64(h[40:], l1At)
	if q.l1Offset != 0 {
		be.PutUint64(h[40:], q.l1Offset)
	}
	end := 72
	if q.version >= 3 {
		if q.compress == "zstd" {
			q.features |= qcowCompression
			h[104] = 1
		}
		be.PutUint64(h[72:], q.features)
		be.PutUint32(h[96:], 4)
		end = 112
		if q.headerBytes == 0 {
			q.headerBytes = 112
		}
		be.PutUint32(h[100:], q.headerBytes)
	}
	if q.extension != 0 {
		be.PutUint32(h[end:], q.extension)
		be.PutUint32(h[end+4:], uint32(len(q.extData)))
		copy(h[end+8:], q.extData)
		end += 8 + (len(q.extData)+7)&^7
	}
	if q.backing != "" {
		be.PutUint64(h[8:], uint64(end+8))
		be.PutUint32(h[16:], uint32(len(q.backing)))
		copy(h[end+8:], q.backing)
	}
}
