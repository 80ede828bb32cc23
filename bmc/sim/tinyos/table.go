package tinyos

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unicode/utf16"
)

// volume is a disk that is read.
type volume struct {
	disk   io.ReaderAt
	name   string
	size   int64
	sector int64
}

// named says in an error which disk it is about.
func (v volume) named(err error) error {
	if v.name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", v.name, err)
}

// table is what the first sectors of a disk say.
type table struct {
	volume
	kind   string // gpt, mbr, or "" for none
	signed bool   // the first sector has a boot signature
	code   bool   // and boot code
	diskID uint32 // of an MBR
	parts  []partition
}

// partition is one entry; start and length are in bytes.
type partition struct {
	number        int
	uuid, name    string
	esp           bool
	start, length int64
}

func (t *table) section(p partition) *io.SectionReader {
	return io.NewSectionReader(t.disk, p.start, p.length)
}

func (t *table) byUUID(uuid string) (partition, bool) {
	for _, p := range t.parts {
		if p.uuid == uuid {
			return p, true
		}
	}
	return partition{}, false
}

func (v volume) read(off, n int64) ([]byte, error) {
	b := make([]byte, n)
	if off < 0 || off+n > v.size {
		return nil, fmt.Errorf("bytes %d to %d are not on a disk of %d", off, off+n, v.size)
	}
	if _, err := v.disk.ReadAt(b, off); err != nil {
		return nil, fmt.Errorf("read %d bytes at %d: %w", n, off, err)
	}
	return b, nil
}

// table reads the partition table. A disk without one is no error yet.
func (v volume) table() (*table, error) {
	t := &table{volume: v}
	mbr, err := v.read(0, 512)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	t.signed = mbr[510] == 0x55 && mbr[511] == 0xaa
	t.code = !bytes.Equal(mbr[:440], make([]byte, 440))
	if !t.signed {
		return t, nil
	}
	if err := v.noRAID(); err != nil {
		return nil, err
	}
	for e := mbr[446:510]; len(e) > 0; e = e[16:] {
		if e[4] == 0xee {
			return t, t.gpt()
		}
	}
	t.diskID = le.Uint32(mbr[440:])
	for i := range 4 {
		e := mbr[446+16*i:]
		start, n := int64(le.Uint32(e[8:]))*v.sector, int64(le.Uint32(e[12:]))*v.sector
		if e[4] == 0 || n == 0 || start+n > v.size {
			continue
		}
		t.kind = "mbr"
		active := e[0]&0x80 != 0 && (e[4] == 0x01 || e[4] == 0x04 || e[4] == 0x06 || e[4] == 0x0b || e[4] == 0x0c || e[4] == 0x0e)
		t.parts = append(t.parts, partition{
			number: i + 1, start: start, length: n, esp: e[4] == 0xef || active,
			uuid: fmt.Sprintf("%08x-%02x", t.diskID, i+1),
		})
	}
	return t, t.noOldGPT()
}

// noOldGPT refuses an MBR before the backup of an older GPT: tools restore that
// one, and the partitions are gone (K-23).
func (t *table) noOldGPT() error {
	b, err := t.read(t.size/t.sector*t.sector-t.sector, 8)
	if err == nil && t.kind == "mbr" && string(b) == "EFI PART" {
		err = errors.New("the MBR is contradicted by the backup of an older GPT at the end of the disk")
	}
	return err
}

// noRAID refuses the superblock of an old array at the end of the disk (md
// formats 0.90 and 1.0): a system takes the whole disk for a part of it, and the
// partitions are busy (K-08).
func (v volume) noRAID() error {
	for _, at := range []int64{v.size&^0xffff - 64<<10, (v.size - 8<<10) &^ 4095} {
		if b, err := v.read(at, 4); err == nil && string(b) == "\xfc\x4e\x2b\xa9" {
			return fmt.Errorf("the superblock of an old RAID array is at byte %d", at)
		}
	}
	return nil
}

// gpt reads both copies (UEFI 2.10, 5.3).
func (t *table) gpt() error {
	last := t.size/t.sector - 1
	first, entries, err := t.header(1)
	if err != nil {
		return fmt.Errorf("no GPT: %w", err)
	}
	if at := int64(binary.LittleEndian.Uint64(first[32:])); at != last {
		return fmt.Errorf("backup GPT header is not at the end: it is at sector %d, the last one is %d", at, last)
	}
	second, backup, err := t.header(last)
	if err != nil {
		return fmt.Errorf("backup GPT: %w", err)
	}
	if !bytes.Equal(first[56:72], second[56:72]) || !bytes.Equal(entries, backup) {
		return errors.New("backup GPT differs from the first")
	}
	t.kind = "gpt"
	for i := 0; 128*i < len(entries); i++ {
		t.addGPT(entries[128*i:], i+1)
	}
	return nil
}

func (t *table) addGPT(e []byte, number int) {
	if bytes.Equal(e[:16], make([]byte, 16)) {
		return
	}
	le := binary.LittleEndian
	var name []uint16
	for i := 56; i < 128 && le.Uint16(e[i:]) != 0; i += 2 {
		name = append(name, le.Uint16(e[i:]))
	}
	start, last := int64(le.Uint64(e[32:])), int64(le.Uint64(e[40:]))
	t.parts = append(t.parts, partition{
		number: number, uuid: guid(e[16:32]), name: string(utf16.Decode(name)), esp: bytes.Equal(e[:16], typeESP),
		start: start * t.sector, length: (last - start + 1) * t.sector,
	})
}

// header reads a header at a sector, with its entries.
func (t *table) header(lba int64) (h, entries []byte, err error) {
	le := binary.LittleEndian
	h, err = t.read(lba*t.sector, 92)
	if err != nil {
		return nil, nil, err
	}
	if string(h[:8]) != "EFI PART" || le.Uint32(h[12:]) != 92 {
		return nil, nil, fmt.Errorf("no header at sector %d", lba)
	}
	sum := le.Uint32(h[16:])
	clear(h[16:20])
	if crc32.ChecksumIEEE(h) != sum || int64(le.Uint64(h[24:])) != lba {
		return nil, nil, fmt.Errorf("the header at sector %d is damaged", lba)
	}
	n := int64(le.Uint32(h[80:]))
	if le.Uint32(h[84:]) != 128 || n < 4 || n > 1024 {
		return nil, nil, fmt.Errorf("%d entries of %d bytes", n, le.Uint32(h[84:]))
	}
	entries, err = t.read(int64(le.Uint64(h[72:]))*t.sector, 128*n)
	if err == nil && crc32.ChecksumIEEE(entries) != le.Uint32(h[88:]) {
		err = fmt.Errorf("the entries of the header at sector %d are damaged", lba)
	}
	return h, entries, err
}

// guid is a GUID as text; its first three parts are little-endian.
func guid(b []byte) string {
	le := binary.LittleEndian
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), b[8:10], b[10:16])
}

// system looks whether the tiny system is whole; other images are not looked
// into.
func (t *table) system() error {
	for _, p := range t.parts {
		head, err := t.read(p.start, min(rootHead, p.length))
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(head, []byte(rootMagic)) {
			if p.name == rootName {
				return fmt.Errorf("the system on partition %d is gone", p.number)
			}
			continue
		}
		le := binary.LittleEndian
		n := int64(le.Uint32(head[12:]))
		if n < rootHead || n > p.length {
			return fmt.Errorf("the system on partition %d says that it is %d bytes", p.number, n)
		}
		b, err := t.read(p.start, n)
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(b[rootHead:]); !bytes.Equal(sum[:], head[16:48]) {
			return fmt.Errorf("the system on partition %d is damaged: its SHA-256 is %s", p.number, hex.EncodeToString(sum[:]))
		}
		if id := le.Uint32(head[8:]); id != 0 && id != t.diskID {
			return fmt.Errorf("the disk identifier is 0x%08x, the system was installed on 0x%08x", t.diskID, id)
		}
	}
	return nil
}

// checkLoader looks at the headers of an EFI application (PE32+).
func checkLoader(b []byte) error {
	le := binary.LittleEndian
	if len(b) < 64 || string(b[:2]) != "MZ" {
		return errors.New("it is no EFI application")
	}
	at := int(le.Uint32(b[60:]))
	if at < 64 || at+96 > len(b) || string(b[at:at+4]) != "PE\x00\x00" || le.Uint16(b[at+24:]) != 0x20b {
		return errors.New("it is no EFI application")
	}
	if m, s := le.Uint16(b[at+4:]), le.Uint16(b[at+24+68:]); m != machineX64 || s != subsystemEFI {
		return fmt.Errorf("it is for machine %#x and subsystem %d, not for x86-64 and EFI", m, s)
	}
	return nil
}
