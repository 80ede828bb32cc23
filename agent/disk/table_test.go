package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bessemer/agent/hw"
	"bessemer/agent/wire"
)

// newDisk is a fake disk of zeros.
func newDisk(t testing.TB, size int64, sector int) (hw.Disk, *hw.Fake) {
	path := filepath.Join(t.TempDir(), "sda")
	m := &hw.Fake{
		Hardware: wire.Inventory{Disks: []wire.Disk{{Name: "/dev/sda", Size: size, LogicalSectorSize: sector}}},
		Files:    map[string]string{"/dev/sda": path},
	}
	d, err := m.OpenDisk("/dev/sda", true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, m
}

// gptImage is an image with a GPT, made by hand so that the code under test
// does not judge itself.
func gptImage(size int64, sector int, parts ...Partition) []byte {
	img := make([]byte, size)
	le := binary.LittleEndian
	last := uint64(size)/uint64(sector) - 1
	copy(img[:10], "boot code!")
	img[446+4] = mbrProtect
	le.PutUint32(img[446+8:], 1)
	le.PutUint32(img[446+12:], uint32(last))
	img[510], img[511] = 0x55, 0xaa
	entries := make([]byte, 128*128)
	for i, p := range parts {
		e := entries[128*i:]
		copy(e, guidBytes(p.Type))
		copy(e[16:], guidBytes(p.UUID))
		le.PutUint64(e[32:], p.First)
		le.PutUint64(e[40:], p.Last)
		for j, c := range p.Name {
			le.PutUint16(e[56+2*j:], uint16(c))
		}
	}
	n := uint64(len(entries) / sector)
	put := func(own, other, at uint64) {
		h := img[own*uint64(sector):]
		copy(h, gptMagic)
		le.PutUint32(h[8:], 0x10000)
		le.PutUint32(h[12:], 92)
		le.PutUint64(h[24:], own)
		le.PutUint64(h[32:], other)
		le.PutUint64(h[40:], 2+n)
		le.PutUint64(h[48:], last-n-1)
		copy(h[56:], guidBytes("11111111-2222-4333-8444-555555555555"))
		le.PutUint64(h[72:], at)
		le.PutUint32(h[80:], 128)
		le.PutUint32(h[84:], 128)
		le.PutUint32(h[88:], crc32.ChecksumIEEE(entries))
		le.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
		copy(img[at*uint64(sector):], entries)
	}
	put(1, last, 2)
	put(last, 1, last-n)
	return img
}

var espPart = Partition{Type: TypeESP, UUID: "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee", Name: "esp", First: 2048, Last: 4095}

var rootPart = Partition{Type: TypeLinux, UUID: "bbbbbbbb-bbbb-4ccc-8ddd-eeeeeeeeeeee", Name: "root", First: 4096, Last: 8191}

func write(t testing.TB, d hw.Disk, img []byte) {
	t.Helper()
	if _, err := d.WriteAt(img, 0); err != nil {
		t.Fatal(err)
	}
}

func TestSettleMovesTheBackup(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		scale := uint64(sector / 512)
		esp, root := espPart, rootPart
		for _, p := range []*Partition{&esp, &root} {
			p.First, p.Last = p.First/scale, (p.Last+1)/scale-1
		}
		img := gptImage(6<<20, sector, esp, root)
		d, m := newDisk(t, 40<<20, sector)
		write(t, d, img)
		tab, err := Settle(d)
		if err != nil {
			t.Fatal(err)
		}
		if tab.Scheme != GPT || len(tab.Partitions) != 2 || tab.DiskID != "11111111-2222-4333-8444-555555555555" || !tab.BootCode {
			t.Errorf("got %+v", tab)
		}
		p := tab.ESP()
		if p == nil || p.UUID != esp.UUID || p.First != esp.First || p.Name != "esp" || p.Number != 1 {
			t.Errorf("ESP is %+v, want %+v", p, esp)
		}
		if err := verifyGPT(d, sector); err != nil {
			t.Error(err)
		}
		if a := m.Actions(); len(a) != 1 || a[0] != "reread /dev/sda" {
			t.Errorf("actions %v, want one rereading", a)
		}
		got, _ := os.ReadFile(m.Files["/dev/sda"])
		same := bytes.Equal(got[:sector], img[:sector]) && bytes.Equal(got[2*sector:len(img)-33*sector], img[2*sector:len(img)-33*sector])
		if !same {
			t.Error("more of the image than its GPT header was changed")
		}
		sgdisk(t, m.Files["/dev/sda"], sector)
	}
}

// sgdisk is an independent judge of a table, where it is installed.
func sgdisk(t *testing.T, path string, sector int) {
	tool, err := exec.LookPath("sgdisk")
	if err != nil || sector != 512 {
		return
	}
	out, err := exec.Command(tool, "-v", path).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "No problems found") {
		t.Errorf("sgdisk -v: %v\n%s", err, out)
	}
}

func TestSettleLeavesWhatIsRight(t *testing.T) {
	img := gptImage(6<<20, 512, espPart)
	d, m := newDisk(t, 6<<20, 512)
	write(t, d, img)
	if _, err := Settle(d); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(m.Files["/dev/sda"]); !bytes.Equal(got, img) {
		t.Error("a right GPT was changed")
	}
	for name, img := range map[string][]byte{"mbr": mbrImage(), "no table": make([]byte, 1<<20)} {
		d, m := newDisk(t, 6<<20, 512)
		write(t, d, img)
		if _, err := Settle(d); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(m.Files["/dev/sda"]); !bytes.Equal(got[:len(img)], img) {
			t.Errorf("%s was changed", name)
		}
	}
}

func TestSettleRefusesDamage(t *testing.T) {
	good := gptImage(6<<20, 512, espPart, rootPart)
	for _, tt := range []struct {
		name   string
		damage func([]byte)
		sector int
		size   int64
		says   string
	}{
		{"header CRC", func(b []byte) { b[512+60] ^= 1 }, 512, 8 << 20, "CRC"},
		{"entries CRC", func(b []byte) { b[1024+40] ^= 1 }, 512, 8 << 20, "CRC"},
		{"no header", func(b []byte) { clear(b[512:1024]) }, 512, 8 << 20, "no GPT header"},
		{"sector size", func([]byte) {}, 4096, 8 << 20, "sectors of 512 bytes, this disk's are 4096"},
	} {
		img := bytes.Clone(good)
		tt.damage(img)
		d, _ := newDisk(t, tt.size, tt.sector)
		write(t, d, img)
		if _, err := Settle(d); !errors.Is(err, ErrTable) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want ErrTable with %q", tt.name, err, tt.says)
		}
	}
}

func TestPartitionWhereTheBackupBelongs(t *testing.T) {
	full := rootPart
	full.Last = 6<<20/512 - 34
	img := gptImage(6<<20, 512, full)
	d, _ := newDisk(t, 6<<20-16*512, 512)
	d.WriteAt(img[:6<<20-16*512], 0)
	if _, err := Settle(d); !errors.Is(err, ErrTable) {
		t.Errorf("got %v, want ErrTable", err)
	}
}

func mbrImage() []byte {
	img := make([]byte, 4<<20)
	le := binary.LittleEndian
	copy(img, "\xeb\x63 code")
	le.PutUint32(img[440:], 0x1234abcd)
	entry := func(at int, kind byte, first, count uint32) {
		img[at+4] = kind
		le.PutUint32(img[at+8:], first)
		le.PutUint32(img[at+12:], count)
		img[at&^511+510], img[at&^511+511] = 0x55, 0xaa
	}
	entry(446, 0x83, 2048, 1024)
	entry(462, 0x05, 4096, 4096)
	entry(4096*512+446, 0x83, 8, 100)
	entry(4096*512+462, 0x05, 1024, 200)
	entry(5120*512+446, 0x83, 8, 50)
	return img
}

func TestMBR(t *testing.T) {
	d, _ := newDisk(t, 8<<20, 512)
	write(t, d, mbrImage())
	tab, err := ReadTable(d)
	if err != nil {
		t.Fatal(err)
	}
	want := []Partition{
		{1, "0x83", "1234abcd-01", "", 2048, 3071, false},
		{2, "0x05", "1234abcd-02", "", 4096, 8191, false},
		{5, "0x83", "1234abcd-05", "", 4104, 4203, false},
		{6, "0x83", "1234abcd-06", "", 5128, 5177, false},
	}
	if tab.Scheme != MBR || tab.DiskID != "0x1234abcd" || len(tab.Partitions) != len(want) {
		t.Fatalf("got %+v", tab)
	}
	for i, p := range tab.Partitions {
		if p != want[i] {
			t.Errorf("got %+v, want %+v", p, want[i])
		}
	}
}

func TestEndlessChainOfLogicalPartitions(t *testing.T) {
	img := mbrImage()
	binary.LittleEndian.PutUint32(img[5120*512+462+8:], 1024) // the second one points at itself
	binary.LittleEndian.PutUint32(img[5120*512+462+12:], 50)
	img[5120*512+462+4] = 5
	d, _ := newDisk(t, 8<<20, 512)
	write(t, d, img)
	if _, err := ReadTable(d); !errors.Is(err, ErrTable) {
		t.Errorf("got %v, want ErrTable", err)
	}
}

func FuzzReadTable(f *testing.F) {
	f.Add(gptImage(256<<10, 512, Partition{Type: TypeESP, UUID: espPart.UUID, First: 64, Last: 100})[:20<<10])
	f.Add(mbrImage()[:512])
	f.Fuzz(func(t *testing.T, head []byte) {
		d := memDisk{make([]byte, 256<<10)}
		copy(d.b, head)
		tab, err := ReadTable(d)
		if err != nil {
			return
		}
		for _, p := range tab.Partitions {
			if tab.Scheme == GPT && p.Last >= 512 {
				t.Errorf("partition %+v leaves the disk", p)
			}
		}
		Settle(d)
		WriteConfigDrive(d, fakeISO(40<<10))
		WipeMetadata(d)
	})
}

// With an MBR, a FAT partition that is only flagged for booting holds the
// loaders (U-02); one of the type for it comes first.
func TestESPOfAnMBR(t *testing.T) {
	for _, tt := range []struct {
		name    string
		entries [][2]byte // flag and type of the partitions
		want    int       // number; 0: none
	}{
		{"of its type", [][2]byte{{0, 0x83}, {0, 0xef}}, 2},
		{"FAT, flagged", [][2]byte{{0, 0x83}, {0x80, 0x0c}}, 2},
		{"FAT, not flagged", [][2]byte{{0x80, 0x83}, {0, 0x0c}}, 0},
		{"both", [][2]byte{{0x80, 0x0c}, {0, 0xef}}, 2},
	} {
		d, _ := newDisk(t, 8<<20, 512)
		img := make([]byte, 512)
		img[510], img[511] = 0x55, 0xaa
		for i, e := range tt.entries {
			copy(img[446+16*i:], []byte{e[0], 0, 0, 0, e[1], 0, 0, 0, byte(64 * (i + 1)), 0, 0, 0, 64})
		}
		write(t, d, img)
		tab, err := ReadTable(d)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		if p := tab.ESP(); p != nil {
			got = p.Number
		}
		if got != tt.want {
			t.Errorf("%s: partition %d, want %d", tt.name, got, tt.want)
		}
	}
}
