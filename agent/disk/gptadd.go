package disk

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"unicode/utf16"
)

// add puts a partition into the first free entry. The table is not saved.
func (g *gptHeader) add(p Partition) (number int, uuid string, err error) {
	for i := range g.count() {
		e := g.entry(i)
		if !allZero(e[:16]) {
			continue
		}
		clear(e)
		copy(e, guidBytes(p.Type))
		rand.Read(e[16:32])
		e[23], e[24] = e[23]&0x0f|0x40, e[24]&0x3f|0x80 // version 4; the third part is little-endian
		binary.LittleEndian.PutUint64(e[32:], p.First)
		binary.LittleEndian.PutUint64(e[40:], p.Last)
		for j, c := range utf16.Encode([]rune(p.Name)) {
			binary.LittleEndian.PutUint16(e[56+2*j:], c)
		}
		return i + 1, guid(e[16:]), nil
	}
	return 0, "", errors.New("the table has no free entry")
}
