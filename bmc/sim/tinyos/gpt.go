package tinyos

import (
	"encoding/binary"
	"hash/crc32"
	"unicode/utf16"
)

// Types and identifiers as they stand in a GPT, the first three parts
// little-endian.
var (
	typeESP   = []byte("\x28\x73\x2a\xc1\x1f\xf8\xd2\x11\xba\x4b\x00\xa0\xc9\x3e\xc9\x3b")
	typeLinux = []byte("\xaf\x3d\xc6\x0f\x83\x84\x72\x47\x8e\x79\x3d\x69\xd8\x47\x7d\xe4")

	diskGUID = []byte("bessemer\x80\x01tiny0d")
	espGUID  = []byte("bessemer\x80\x02tiny0e")
	rootGUID = []byte("bessemer\x80\x03tiny0r")
)

// protect writes the MBR that says that the disk is in use.
func protect(image []byte) {
	e := image[446:]
	copy(e, []byte{0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff})
	binary.LittleEndian.PutUint32(e[8:], 1)
	binary.LittleEndian.PutUint32(e[12:], uint32(len(image)/512-1))
}

// writeTables writes one GPT for sectors of 512 bytes and one for sectors of
// 4096, each with its backup; both describe the same partitions.
func writeTables(image []byte) {
	end := int64(len(image))
	backup4K := end - 4096
	writeTable(image, 512, 512, entries512, end-512, backup4K-tableSize)
	writeTable(image, 4096, header4K, entries4K, backup4K, backup4K-2*tableSize)
}

// writeTable writes a table and its backup; the places are in bytes.
func writeTable(image []byte, sector, header, entries, backup, backupEntries int64) {
	table := tableEntries(uint64(sector))
	copy(image[entries:], table)
	copy(image[backupEntries:], table)
	lastUsable := (int64(len(image)) - 4096 - 2*tableSize) / sector
	for _, c := range []struct{ own, other, entries int64 }{{header, backup, entries}, {backup, header, backupEntries}} {
		h := image[c.own : c.own+92]
		le := binary.LittleEndian
		copy(h, "EFI PART\x00\x00\x01\x00")
		le.PutUint32(h[12:], 92)
		le.PutUint64(h[24:], uint64(c.own/sector))
		le.PutUint64(h[32:], uint64(c.other/sector))
		le.PutUint64(h[40:], uint64(espStart/sector))
		le.PutUint64(h[48:], uint64(lastUsable-1))
		copy(h[56:], diskGUID)
		le.PutUint64(h[72:], uint64(c.entries/sector))
		le.PutUint32(h[80:], tableSize/128)
		le.PutUint32(h[84:], 128)
		le.PutUint32(h[88:], crc32.ChecksumIEEE(table))
		le.PutUint32(h[16:], crc32.ChecksumIEEE(h))
	}
}

func tableEntries(sector uint64) []byte {
	table := make([]byte, tableSize)
	le := binary.LittleEndian
	for i, p := range []struct {
		kind, guid []byte
		start, end uint64
		name       string
	}{
		{typeESP, espGUID, espStart, espEnd, "tiny-esp"},
		{typeLinux, rootGUID, rootStart, rootEnd, rootName},
	} {
		e := table[128*i:]
		copy(e, p.kind)
		copy(e[16:], p.guid)
		le.PutUint64(e[32:], p.start/sector)
		le.PutUint64(e[40:], p.end/sector-1)
		for j, c := range utf16.Encode([]rune(p.name)) {
			le.PutUint16(e[56+2*j:], c)
		}
	}
	return table
}
