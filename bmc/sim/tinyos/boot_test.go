package tinyos

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bessemer/agent/disk"
	"bessemer/agent/hw"
	"bessemer/agent/wire"
)

const diskSize = 64<<20 + 4096

// written is a disk with an image on it, and what the agent does after that
// unless raw is set.
func written(t *testing.T, image []byte, sector int, raw bool) hw.Disk {
	t.Helper()
	m := &hw.Fake{
		Hardware: wire.Inventory{Disks: []wire.Disk{{Name: "/dev/sda", Size: diskSize, LogicalSectorSize: sector}}},
		Files:    map[string]string{"/dev/sda": filepath.Join(t.TempDir(), "sda")},
	}
	d, err := m.OpenDisk("/dev/sda", true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if _, err := d.WriteAt(image, 0); err != nil {
		t.Fatal(err)
	}
	if raw {
		return d
	}
	if _, err := disk.Settle(d); err != nil {
		t.Fatal(err)
	}
	return d
}

func drive(t *testing.T, d hw.Disk, files map[string][]byte) {
	t.Helper()
	fat, err := disk.MakeFAT(files, "config-2", 512)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := disk.WriteConfigDrive(d, fat); err != nil {
		t.Fatal(err)
	}
}

var metaData = map[string][]byte{
	"openstack/latest/meta_data.json":    []byte(`{"uuid": "u-1", "hostname": "h-1", "public_keys": {"b": "ssh-b", "a": "ssh-a"}}`),
	"openstack/latest/user_data":         []byte("#cloud-config\n"),
	"openstack/latest/network_data.json": []byte("{}"),
}

func TestBoot(t *testing.T) {
	esp := guid(espGUID)
	entry := hw.BootEntry{Number: 3, Active: true, PartUUID: esp, Loader: `\EFI\BOOT\BOOTX64.EFI`}
	gone := hw.BootEntry{Number: 2, Active: true, PartUUID: "0", Loader: `\EFI\x.efi`}
	want := System{Config: "partition 3, vfat", Hostname: "h-1", InstanceUUID: "u-1", SSHKeys: []string{"ssh-a", "ssh-b"}, UserData: []byte("#cloud-config\n"), NetworkData: []byte("{}")}
	for _, tt := range []struct {
		name    string
		image   []byte
		sector  int
		mode    string
		entries []hw.BootEntry
		order   []int
		from    string
	}{
		{"BIOS", Image(), 512, "bios", nil, nil, "MBR"},
		{"BIOS MBR", MBRImage(), 512, "bios", nil, nil, "MBR"},
		{"UEFI without entries", Image(), 512, "uefi", nil, nil, "EFI/BOOT/BOOTX64.EFI"},
		{"UEFI MBR", MBRImage(), 512, "uefi", nil, nil, "EFI/BOOT/BOOTX64.EFI"},
		{"UEFI with an entry", Image(), 512, "uefi", []hw.BootEntry{entry}, []int{3}, `boot entry 0003 \EFI\BOOT\BOOTX64.EFI`},
		{"UEFI with an old entry first", Image(), 512, "uefi", []hw.BootEntry{gone, entry}, []int{2, 3}, `boot entry 0003 \EFI\BOOT\BOOTX64.EFI`},
		{"an entry that is not in the order", Image(), 512, "uefi", []hw.BootEntry{entry}, nil, "EFI/BOOT/BOOTX64.EFI"},
		{"UEFI 4096", Image(), 4096, "uefi", nil, nil, "EFI/BOOT/BOOTX64.EFI"},
	} {
		d := written(t, tt.image, tt.sector, false)
		drive(t, d, metaData)
		want.From = tt.from
		got, err := startOne(d, d.Size(), tt.sector, tt.mode, tt.entries, tt.order)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestBootWithoutConfigDrive(t *testing.T) {
	d := written(t, Image(), 512, false)
	s, err := startOne(d, d.Size(), 512, "uefi", nil, nil)
	if err != nil || s.Config != "" || s.From == "" {
		t.Errorf("%+v, %v", s, err)
	}
}

// Each thing that an agent could leave undone, or do wrong, keeps a machine
// from booting, and the error says what it is.
func TestDoesNotBoot(t *testing.T) {
	zero := func(off, n int64) func(*testing.T, hw.Disk) {
		return func(t *testing.T, d hw.Disk) {
			if err := d.Zero(off, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	put := func(off int64, text string) func(*testing.T, hw.Disk) {
		return func(t *testing.T, d hw.Disk) {
			if _, err := d.WriteAt([]byte(text), off); err != nil {
				t.Fatal(err)
			}
		}
	}
	files := func(f map[string][]byte) func(*testing.T, hw.Disk) {
		return func(t *testing.T, d hw.Disk) { drive(t, d, f) }
	}
	for _, tt := range []struct {
		name  string
		image []byte
		raw   bool
		mode  string
		spoil func(*testing.T, hw.Disk)
		says  string
	}{
		{"empty disk by UEFI", nil, true, "uefi", nil, "no GPT"},
		{"empty disk by BIOS", nil, true, "bios", nil, "no boot signature"},
		{"backup not moved", Image(), true, "uefi", nil, "backup GPT header is not at the end"},
		{"backup damaged", Image(), false, "uefi", zero(diskSize-512, 512), "backup GPT: no header"},
		{"first GPT gone", Image(), false, "uefi", zero(512, 512), "no GPT"},
		{"entries changed", Image(), false, "uefi", put(entries512+40, "x"), "damaged"},
		{"no boot code", Image(), false, "bios", zero(0, 440), "no boot code"},
		{"loader gone", Image(), false, "uefi", zero(espStart+3*4096, 16<<10), "loader missing"},
		{"loader damaged", Image(), false, "uefi", zero(espStart+9*4096, 4096), "no EFI application"},
		{"no ESP", Image(), false, "uefi", zero(espStart, 4096), "no FAT"},
		{"one bit of the system", Image(), false, "uefi", put(rootStart+100<<10, "bit"), "damaged: its SHA-256"},
		{"one bit of the hole", Image(), false, "bios", put(rootStart+300<<10, "bit"), "damaged: its SHA-256"},
		{"system gone", Image(), false, "uefi", zero(rootStart, 512), "is gone"},
		{"disk identifier changed", MBRImage(), true, "bios", put(440, "abcd"), "disk identifier"},
		{"backup of an old GPT", MBRImage(), true, "bios", put(diskSize-512, "EFI PART"), "older GPT"},
		{"no meta data", Image(), false, "uefi", files(map[string][]byte{"openstack/latest/user_data": nil}), "config drive: partition 3: openstack/latest/meta_data.json"},
		{"meta data without uuid", Image(), false, "uefi", files(map[string][]byte{"openstack/latest/meta_data.json": []byte("{}")}), "no uuid"},
		{"bad meta data", Image(), false, "uefi", files(map[string][]byte{"openstack/latest/meta_data.json": []byte("{")}), "meta_data.json:"},
		{"bad network data", Image(), false, "uefi", files(map[string][]byte{"openstack/latest/meta_data.json": metaData["openstack/latest/meta_data.json"], "openstack/latest/network_data.json": []byte("{")}), "not JSON"},
	} {
		d := written(t, tt.image, 512, tt.raw)
		if tt.spoil != nil {
			tt.spoil(t, d)
		}
		s, err := startOne(d, d.Size(), 512, tt.mode, nil, nil)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %+v, %v; want an error with %q", tt.name, s, err, tt.says)
		}
	}
}

// A disk with large sectors takes no file system with smaller ones (K-02).
func TestSmallBlocksOnLargeSectors(t *testing.T) {
	d := written(t, Image(), 4096, false)
	drive(t, d, metaData)
	table, err := disk.ReadTable(d)
	if err != nil {
		t.Fatal(err)
	}
	small, err := disk.MakeFAT(metaData, "config-2", 512)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.WriteAt(small, table.Partitions[2].Offset(4096)); err != nil {
		t.Fatal(err)
	}
	if s, err := startOne(d, d.Size(), 4096, "uefi", nil, nil); err == nil || !strings.Contains(err.Error(), "cannot be mounted") {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzBoot(f *testing.F) {
	f.Add(0, []byte("x"), true)
	f.Add(espStart+11, []byte{0, 2, 1}, true)
	f.Add(446, []byte{0, 0, 0, 0, 6}, false)
	f.Fuzz(func(t *testing.T, at int, p []byte, uefi bool) {
		image := append([]byte(nil), MBRImage()...)
		if at < 0 || at > len(image) {
			return
		}
		copy(image[at:], p)
		mode := map[bool]string{true: "uefi", false: "bios"}[uefi]
		_, _ = startOne(strings.NewReader(string(image)), int64(len(image)), 512, mode, nil, nil)
	})
}

// startOne starts a machine with one disk.
func startOne(disk io.ReaderAt, size int64, sector int, mode string, entries []hw.BootEntry, order []int) (System, error) {
	return Start([]Disk{{disk, "", size, sector}}, mode, entries, order)
}
