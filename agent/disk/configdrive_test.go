package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
)

// fakeISO has what makes an ISO 9660 file system out.
func fakeISO(size int) []byte {
	b := bytes.Repeat([]byte("iso "), size/4+1)[:size]
	copy(b[32768:], "\x01CD001\x01")
	copy(b[32808:], "config-2                        ")
	return b
}

func TestConfigDriveOnGPT(t *testing.T) {
	d, m := newDisk(t, 40<<20, 512)
	write(t, d, gptImage(6<<20, 512, espPart, rootPart))
	if _, err := Settle(d); err != nil {
		t.Fatal(err)
	}
	iso := fakeISO(380 << 10)
	p, note, err := WriteConfigDrive(d, iso)
	if err != nil || note != "" {
		t.Fatal(err, note)
	}
	if p.Number != 3 || p.Name != ConfigLabel || p.Size(512) != 1<<20 || p.First%2048 != 0 {
		t.Errorf("partition %+v, want number 3, 1 MiB, aligned", p)
	}
	got, _ := os.ReadFile(m.Files["/dev/sda"])
	if !bytes.Equal(got[p.Offset(512):p.Offset(512)+int64(len(iso))], iso) {
		t.Error("the config drive's bytes are not in its partition")
	}
	tab, err := ReadTable(d)
	if err != nil || len(tab.Partitions) != 3 || tab.Partitions[2] != p {
		t.Errorf("table %+v, %v; want 3 partitions", tab, err)
	}
	if err := verifyGPT(d, 512); err != nil {
		t.Error(err)
	}
	sgdisk(t, m.Files["/dev/sda"], 512)

	// A second one of the same size reuses the place, a larger one gets another.
	again, _, err := WriteConfigDrive(d, fakeISO(200<<10))
	if err != nil || again != p {
		t.Errorf("second: %+v, %v; want the same partition", again, err)
	}
	got, _ = os.ReadFile(m.Files["/dev/sda"])
	if rest := got[p.Offset(512)+200<<10 : p.Offset(512)+1<<20]; !allZero(rest) {
		t.Error("the rest of the larger, older config drive is still there")
	}
	big, _, err := WriteConfigDrive(d, fakeISO(3<<20+1))
	if err != nil || big.Size(512) != 4<<20 {
		t.Errorf("third: %+v, %v; want 4 MiB", big, err)
	}
	if tab, _ := ReadTable(d); len(tab.Partitions) != 3 {
		t.Errorf("%d partitions, want 3: the old config drive must go (K-25)", len(tab.Partitions))
	}
	sgdisk(t, m.Files["/dev/sda"], 512)
}

func TestConfigDriveFoundByItsLabel(t *testing.T) {
	part := rootPart
	part.Name = "data"
	img := gptImage(6<<20, 512, espPart, part)
	copy(img[part.First*512:], fakeISO(100<<10)) // the image brings one
	d, _ := newDisk(t, 40<<20, 512)
	write(t, d, img)
	if _, err := Settle(d); err != nil {
		t.Fatal(err)
	}
	if p, _, err := WriteConfigDrive(d, fakeISO(300<<10)); err != nil || p.Number != 2 {
		t.Errorf("got %+v, %v; want partition 2", p, err)
	}
}

func TestConfigDriveOnMBR(t *testing.T) {
	d, m := newDisk(t, 40<<20, 512)
	img := mbrImage()
	write(t, d, img)
	p, _, err := WriteConfigDrive(d, fakeISO(380<<10))
	if err != nil {
		t.Fatal(err)
	}
	if p.Number != 3 || p.First != 39*2048 || p.Size(512) != 1<<20 {
		t.Errorf("got %+v, want partition 3 in the last MiB", p)
	}
	got, _ := os.ReadFile(m.Files["/dev/sda"])
	if !bytes.Equal(got[:446], img[:446]) || !bytes.Equal(got[446:478], img[446:478]) {
		t.Error("more of the MBR than one entry was changed (K-04)")
	}
	if again, _, err := WriteConfigDrive(d, fakeISO(90<<10)); err != nil || again.Number != 3 {
		t.Errorf("second: %+v, %v; want partition 3", again, err)
	}
	for i := range 4 {
		img[446+16*i+4] = 0x83
		binary.LittleEndian.PutUint32(img[446+16*i+8:], uint32(2048*(i+1)))
		binary.LittleEndian.PutUint32(img[446+16*i+12:], 64)
	}
	write(t, d, img)
	if _, _, err := WriteConfigDrive(d, fakeISO(90<<10)); err == nil || !strings.Contains(err.Error(), "four primary") {
		t.Errorf("full MBR: %v", err)
	}
}

// What an MBR can address ends at 2 TiB (K-03).
func TestConfigDriveOnMBROfALargeDisk(t *testing.T) {
	d, _ := newDisk(t, 3<<40, 512)
	write(t, d, mbrImage())
	p, _, err := WriteConfigDrive(d, fakeISO(380<<10))
	if err != nil || p.Last >= maxMBR || p.Last < maxMBR-4096 {
		t.Errorf("got %+v, %v; want the end of what an MBR can address", p, err)
	}
}

func TestConfigDriveRefused(t *testing.T) {
	full := rootPart
	full.Last = 6<<20/512 - 35
	for _, tt := range []struct {
		name string
		img  []byte
		size int64
		iso  []byte
		says string
	}{
		{"no partition table", make([]byte, 1<<20), 8 << 20, fakeISO(40 << 10), "no partition table"},
		{"no room", gptImage(6<<20, 512, full), 6 << 20, fakeISO(40 << 10), "do not fit"},
		{"json", gptImage(6<<20, 512, espPart), 8 << 20, []byte(`{"meta_data":{}}`), "neither"},
		{"empty", gptImage(6<<20, 512, espPart), 8 << 20, nil, "empty"},
		{"too large", gptImage(6<<20, 512, espPart), 8 << 20, make([]byte, MaxConfigDrive+1), "at most"},
	} {
		d, _ := newDisk(t, tt.size, 512)
		write(t, d, tt.img)
		Settle(d)
		if _, _, err := WriteConfigDrive(d, tt.iso); !errors.Is(err, ErrConfigDrive) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want ErrConfigDrive with %q", tt.name, err, tt.says)
		}
	}
}
