package disk

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unicode/utf16"

	"bessemer/agent/hw"
)

const gptMagic = "EFI PART"

// maxEntries bounds the partition entries of a GPT; everyone uses 128.
const maxEntries = 1024

// gptHeader is a GPT header (UEFI 2.10, 5.3.2) and its entries, as bytes, so
// that what we do not know stays as it is.
type gptHeader struct {
	header  []byte // HeaderSize bytes
	entries []byte
	sector  int
}

func (g *gptHeader) u64(off int) uint64      { return binary.LittleEndian.Uint64(g.header[off:]) }
func (g *gptHeader) u32(off int) uint32      { return binary.LittleEndian.Uint32(g.header[off:]) }
func (g *gptHeader) put64(off int, v uint64) { binary.LittleEndian.PutUint64(g.header[off:], v) }
func (g *gptHeader) entrySize() int          { return int(g.u32(84)) }
func (g *gptHeader) entry(i int) []byte      { return g.entries[i*g.entrySize() : (i+1)*g.entrySize()] }
func (g *gptHeader) count() int              { return int(g.u32(80)) }
func (g *gptHeader) alternate() uint64       { return g.u64(32) }
func (g *gptHeader) entrySectors() uint64    { return uint64((len(g.entries) + g.sector - 1) / g.sector) }

// readGPT reads the primary table, or the backup when that is damaged.
func readGPT(d hw.Disk, t *Table) error {
	sectors := uint64(d.Size()) / uint64(t.SectorSize)
	g, err := loadGPT(d, 1, t.SectorSize)
	if err != nil && sectors > 1 {
		backup, berr := loadGPT(d, sectors-1, t.SectorSize)
		if berr != nil {
			return err
		}
		g = backup
	}
	if g == nil {
		return err
	}
	t.Scheme, t.gpt, t.DiskID = GPT, g, guid(g.header[56:])
	for i := range g.count() {
		if p, ok := parsePartition(g.entry(i), i+1); ok {
			if p.First > p.Last || p.Last >= sectors {
				return fmt.Errorf("%w: partition %d is from sector %d to %d of %d", ErrTable, i+1, p.First, p.Last, sectors)
			}
			t.Partitions = append(t.Partitions, p)
		}
	}
	return nil
}

// loadGPT reads and checks a header and its entries.
func loadGPT(d hw.Disk, lba uint64, sector int) (*gptHeader, error) {
	b := make([]byte, sector)
	if _, err := d.ReadAt(b, int64(lba)*int64(sector)); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read GPT header: %w", err)
	}
	g, err := parseGPT(b, sector)
	if err != nil {
		return nil, wrongSector(d, sector, err)
	}
	at := g.u64(72)
	if at == 0 || at >= uint64(d.Size())/uint64(sector) {
		return nil, fmt.Errorf("%w: its entries are at sector %d", ErrTable, at)
	}
	if _, err := d.ReadAt(g.entries, int64(at)*int64(sector)); err != nil {
		return nil, fmt.Errorf("read GPT entries: %w", err)
	}
	if got := crc32.ChecksumIEEE(g.entries); got != g.u32(88) {
		return nil, fmt.Errorf("%w: the entries' CRC is %08x, the header says %08x", ErrTable, got, g.u32(88))
	}
	return g, nil
}

// parseGPT checks a header; the entries are allocated, not read.
func parseGPT(b []byte, sector int) (*gptHeader, error) {
	le := binary.LittleEndian
	if len(b) < 92 || string(b[:8]) != gptMagic {
		return nil, fmt.Errorf("%w: there is no GPT header", ErrTable)
	}
	size := le.Uint32(b[12:])
	if size < 92 || int(size) > len(b) {
		return nil, fmt.Errorf("%w: the GPT header is %d bytes", ErrTable, size)
	}
	g := &gptHeader{header: append([]byte(nil), b[:size]...), sector: sector}
	if got := g.crc(); got != g.u32(16) {
		return nil, fmt.Errorf("%w: the GPT header's CRC is %08x, it says %08x", ErrTable, got, g.u32(16))
	}
	n, each := g.u32(80), g.u32(84)
	if each < 128 || each > 4096 || each%8 != 0 || n == 0 || n > maxEntries {
		return nil, fmt.Errorf("%w: %d entries of %d bytes", ErrTable, n, each)
	}
	g.entries = make([]byte, n*each)
	return g, nil
}

// wrongSector tells an image for another sector size from a damaged one.
func wrongSector(d hw.Disk, sector int, err error) error {
	for _, other := range []int{512, 4096} {
		b := make([]byte, 512)
		if _, rerr := d.ReadAt(b, int64(other)); rerr == nil && other != sector && string(b[:8]) == gptMagic {
			return fmt.Errorf("%w: the image is made for disks with sectors of %d bytes, this disk's are %d; use an image for those", ErrTable, other, sector)
		}
	}
	return err
}

func (g *gptHeader) crc() uint32 {
	h := append([]byte(nil), g.header...)
	clear(h[16:20])
	return crc32.ChecksumIEEE(h)
}

func parsePartition(e []byte, number int) (Partition, bool) {
	if allZero(e[:16]) {
		return Partition{}, false
	}
	name := make([]uint16, 0, 36)
	for i := 56; i+1 < 128; i += 2 {
		c := binary.LittleEndian.Uint16(e[i:])
		if c == 0 {
			break
		}
		name = append(name, c)
	}
	return Partition{
		Number: number, Type: guid(e), UUID: guid(e[16:]), Name: string(utf16.Decode(name)),
		First: binary.LittleEndian.Uint64(e[32:]), Last: binary.LittleEndian.Uint64(e[40:]),
	}, true
}

// guid prints a GUID of a GPT: its first three parts are little-endian.
func guid(b []byte) string {
	o := []byte{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]}
	s := hex.EncodeToString(o)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// guidBytes is the reverse of guid, for the constants of this package.
func guidBytes(s string) []byte {
	b, _ := hex.DecodeString(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:])
	return []byte{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]}
}

// save writes both copies of the table, with the backup at the disk's very end
// (K-01): the backup first, so that one good copy is there at any time.
func (g *gptHeader) save(d hw.Disk) error {
	last := uint64(d.Size())/uint64(g.sector) - 1
	binary.LittleEndian.PutUint32(g.header[88:], crc32.ChecksumIEEE(g.entries))
	g.put64(48, last-g.entrySectors()-1) // last usable
	primaryEntries := uint64(2)
	if g.u64(24) == 1 {
		primaryEntries = g.u64(72) // some leave a gap
	}
	for _, c := range []struct{ own, other, entries uint64 }{
		{last, 1, last - g.entrySectors()},
		{1, last, primaryEntries},
	} {
		g.put64(24, c.own)
		g.put64(32, c.other)
		g.put64(72, c.entries)
		binary.LittleEndian.PutUint32(g.header[16:], g.crc())
		if _, err := d.WriteAt(g.entries, int64(c.entries)*int64(g.sector)); err != nil {
			return fmt.Errorf("write GPT entries at sector %d: %w", c.entries, err)
		}
		sector := make([]byte, g.sector)
		copy(sector, g.header)
		if _, err := d.WriteAt(sector, int64(c.own)*int64(g.sector)); err != nil {
			return fmt.Errorf("write GPT header at sector %d: %w", c.own, err)
		}
	}
	return nil
}
