//go:build linux

package hw

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bessemer/agent/wire"
)

// A tree is a copy of /sys and /proc: files by path, and links that begin
// with "->".
type tree map[string]string

func (x tree) machine(t *testing.T) *Linux {
	t.Helper()
	root := t.TempDir()
	for name, text := range x {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(text, "->"); ok {
			err = os.Symlink(target, file)
		} else {
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m := NewLinux(LinuxOptions{})
	m.root = root
	return m
}

// device adds a device of a bus with its attributes.
func (x tree) device(dir, bus string, attrs ...string) {
	x[dir+"/subsystem"] = "->" + strings.Repeat("../", strings.Count(dir, "/")+1) + "bus/" + bus
	for i := 0; i < len(attrs); i += 2 {
		x[dir+"/"+attrs[i]] = attrs[i+1]
	}
}

// disk adds a disk on a device.
func (x tree) disk(name, device string, attrs ...string) {
	x["sys/block/"+name+"/device"] = "->../../../" + device
	for i := 0; i < len(attrs); i += 2 {
		x["sys/block/"+name+"/"+attrs[i]] = attrs[i+1]
	}
}

const pci = "sys/devices/pci0000:00/0000:00:1f.2"

// page makes a page of vital product data.
func page(code byte, data string) string {
	return string([]byte{0, code, byte(len(data) >> 8), byte(len(data))}) + data
}

// naa is a designator of a world wide name.
func naa(id string) string { return string([]byte{1, 0x03, 0, byte(len(id))}) + id }

func swapped(s string, n int) string {
	b := []byte(fmt.Sprintf("%-*s", n, s))
	for i := 0; i < len(b); i += 2 {
		b[i], b[i+1] = b[i+1], b[i]
	}
	return string(b)
}

// rack is a machine with a disk of each kind.
func rack() tree {
	x := tree{}
	x.device(pci, "pci")
	x.device(pci+"/ata3", "")
	x[pci+"/ata3/ata_port/ata3/port_no"] = "1\n"
	sata := pci + "/ata3/host4/target4:0:0/4:0:0:0"
	identity := strings.Repeat("\x00", 20) + swapped("S3YJNB0K", 20) + strings.Repeat("\x00", 14) + swapped("Samsung SSD 860 EVO 500GB", 40)
	x.device(sata, "scsi", "model", "Samsung SSD 860 ", "vendor", "ATA     ",
		"vpd_pg80", page(0x80, "S3YJNB0K    "), "vpd_pg83", page(0x83, string([]byte{2, 1, 0, 8})+"ATA     "+naa("\x50\x02\x53\x8e\x40\x00\x00\x01")),
		"vpd_pg89", page(0x89, strings.Repeat("\x00", 56)+identity+strings.Repeat("\x00", 512-len(identity))))
	x.disk("sda", sata, "size", "976773168", "queue/rotational", "0", "queue/logical_block_size", "512", "queue/physical_block_size", "4096")

	raid := "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
	x.device("sys/devices/pci0000:3a/0000:3a:00.0", "pci")
	x.device(raid, "pci")
	x.device(raid+"/host0/target0:2:1/0:2:1:0", "scsi", "model", "PERC H730P Mini ", "vendor", "DELL    ",
		"vpd_pg83", page(0x83, naa("\x61\x86\x6d\xa0\x5b\x5c\xae\x00\x22\x33\x44\x55\x66\x77\x88\x99")), "vpd_pg80", page(0x80, "00999888"))
	x.disk("sdb", raid+"/host0/target0:2:1/0:2:1:0", "size", "2048", "queue/rotational", "1")

	nvme := "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
	x.device("sys/devices/pci0000:00/0000:00:01.0", "pci")
	x.device(nvme, "pci")
	x.device(nvme+"/nvme/nvme0", "nvme", "model", "INTEL SSDPE2KX010T8                     \n", "serial", "PHLJ1234  \n")
	x.disk("nvme0n1", nvme+"/nvme/nvme0", "size", "1953525168", "wwid", "eui.01000000010000005cd2e4", "nsid", "1", "queue/rotational", "0")
	x.disk("nvme0c0n1", nvme+"/nvme/nvme0", "hidden", "1")

	usb := "sys/devices/pci0000:00/0000:00:14.0/usb1/1-14/1-14.1/1-14.1:1.0"
	x.device("sys/devices/pci0000:00/0000:00:14.0", "pci")
	x.device("sys/devices/pci0000:00/0000:00:14.0/usb1", "usb", "serial", "0000:00:14.0")
	x.device("sys/devices/pci0000:00/0000:00:14.0/usb1/1-14", "usb")
	x.device("sys/devices/pci0000:00/0000:00:14.0/usb1/1-14/1-14.1", "usb", "serial", "20120430")
	x.device(usb, "usb")
	x.device(usb+"/host12/target12:0:0/12:0:0:0", "scsi", "model", "Virtual Floppy  ", "vendor", "iDRAC   ")
	x.disk("sdc", usb+"/host12/target12:0:0/12:0:0:0", "size", "0", "removable", "1", "ro", "1")
	x.disk("sr0", usb+"/host12/target12:0:0/12:0:0:1")

	sas := "sys/devices/pci0000:5d/0000:5d:00.0"
	x.device(sas, "pci")
	end := sas + "/host1/port-1:0/end_device-1:0"
	x.device(end+"/target1:0:0/1:0:0:0", "scsi", "model", "ST4000NM0023", "vendor", "SEAGATE")
	x[sas+"/host1/port-1:0/sas_port/port-1:0/num_phys"] = "1\n"
	x[end+"/sas_device/end_device-1:0/phy_identifier"] = "3\n"
	x[end+"/sas_device/end_device-1:0/sas_address"] = "0x5000c50057890001\n"
	x.disk("sdd", end+"/target1:0:0/1:0:0:0", "size", "100")

	virtio := "sys/devices/pci0000:00/0000:00:05.0/virtio2"
	x.device("sys/devices/pci0000:00/0000:00:05.0", "pci")
	x.device(virtio, "virtio", "vendor", "0x1af4")
	x.disk("vda", virtio, "size", "8", "serial", "disk 1")
	for _, no := range []string{"loop0", "ram1", "zram0", "md127", "dm-0", "fd0", "mmcblk0boot0"} {
		x["sys/block/"+no+"/size"] = "1"
	}
	return x
}

func TestDisks(t *testing.T) {
	got, err := rack().machine(t).Disks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []wire.Disk{
		{
			Name: "/dev/nvme0n1", Model: "INTEL SSDPE2KX010T8", Size: 1000204886016, WWN: "eui.01000000010000005cd2e4", WWNWithExtension: "eui.01000000010000005cd2e4",
			Serial: "PHLJ1234", ByPath: "/dev/disk/by-path/pci-0000:01:00.0-nvme-1", Transport: "nvme",
		},
		{
			Name: "/dev/sda", Model: "Samsung SSD 860 EVO 500GB", Size: 500107862016, WWN: "0x5002538e40000001", WWNWithExtension: "0x5002538e40000001",
			Serial: "S3YJNB0K", Vendor: "ATA", HCTL: "4:0:0:0", ByPath: "/dev/disk/by-path/pci-0000:00:1f.2-ata-1", Transport: "sata",
			LogicalSectorSize: 512, PhysicalSectorSize: 4096,
		},
		{
			Name: "/dev/sdb", Model: "PERC H730P Mini", Size: 1048576, Rotational: true, WWN: "0x61866da05b5cae00",
			WWNWithExtension: "0x61866da05b5cae002233445566778899", WWNVendorExtension: "0x2233445566778899",
			Serial: "00999888", Vendor: "DELL", HCTL: "0:2:1:0", ByPath: "/dev/disk/by-path/pci-0000:3b:00.0-scsi-0:2:1:0", Transport: "scsi",
		},
		{
			Name: "/dev/sdc", Model: "Virtual Floppy", Serial: "20120430", Vendor: "iDRAC", HCTL: "12:0:0:0", Transport: "usb",
			ByPath:   "/dev/disk/by-path/pci-0000:00:14.0-usb-0:14.1:1.0-scsi-0:0:0:0",
			ReadOnly: true, Removable: true, VirtualMedia: true,
		},
		{
			Name: "/dev/sdd", Model: "ST4000NM0023", Size: 51200, Vendor: "SEAGATE", HCTL: "1:0:0:0", Transport: "sas",
			ByPath: "/dev/disk/by-path/pci-0000:5d:00.0-sas-phy3-lun-0",
		},
		{Name: "/dev/vda", Size: 4096, Serial: "disk 1", ByPath: "/dev/disk/by-path/pci-0000:00:05.0", Transport: "virtio"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("disks (-want +got):\n%s", d)
	}
}

func TestSASPaths(t *testing.T) {
	x := tree{}
	sas := "sys/devices/pci0000:5d/0000:5d:00.0"
	x.device(sas, "pci")
	expander := sas + "/host1/port-1:0/expander-1:0"
	x[expander+"/sas_device/expander-1:0/sas_address"] = "0x500056b3\n"
	behind := expander + "/port-1:0:4/end_device-1:0:4"
	x[expander+"/port-1:0:4/sas_port/port-1:0:4/num_phys"] = "1\n"
	x[behind+"/sas_device/end_device-1:0:4/phy_identifier"] = "4\n"
	x.device(behind+"/target1:0:4/1:0:4:258", "scsi")
	x.disk("sda", behind+"/target1:0:4/1:0:4:258")
	wide := sas + "/host1/port-1:1/end_device-1:1"
	x[sas+"/host1/port-1:1/sas_port/port-1:1/num_phys"] = "4\n"
	x[wide+"/sas_device/end_device-1:1/sas_address"] = "0x5000c500\n"
	x.device(wide+"/target1:0:5/1:0:5:0", "scsi")
	x.disk("sdb", wide+"/target1:0:5/1:0:5:0")
	disks, err := x.machine(t).Disks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"pci-0000:5d:00.0-sas-exp0x500056b3-phy4-lun-0x0102000000000000", "pci-0000:5d:00.0-sas-0x5000c500-lun-0"} {
		if got := strings.TrimPrefix(disks[i].ByPath, "/dev/disk/by-path/"); got != want {
			t.Errorf("%s: got %s, want %s", disks[i].Name, got, want)
		}
	}
}

func TestVirtualMedia(t *testing.T) {
	for _, tt := range []struct {
		transport, vendor, model string
		want                     bool
	}{
		{"usb", "AMI", "Virtual CDROM0", true},
		{"usb", "Linux", "Virtual Floppy", true},
		{"usb", "HP iLO", "LUN 00 Media 0", true},
		{"usb", "CiscoVD", "vKVM-Mapped vDVD", true},
		{"usb", "ATEN", "Storage", true},
		{"usb", "IBM", "Composite Device-0", true},
		{"usb", "SanDisk", "Ultra Fit", false},
		{"scsi", "VMware", "Virtual disk", false},
		{"scsi", "Msft", "Virtual Disk", false},
		{"sas", "DELL", "Virtual Disk", false},
	} {
		if got := virtualMedia(wire.Disk{Transport: tt.transport, Vendor: tt.vendor, Model: tt.model}); got != tt.want {
			t.Errorf("%s %q %q: got %v", tt.transport, tt.vendor, tt.model, got)
		}
	}
}

func TestOpenDiskRefusesOtherFiles(t *testing.T) {
	m := rack().machine(t)
	for _, name := range []string{"/etc/passwd", "sda", "/dev/", "/dev/../etc/passwd", "/dev/sdz", "/dev/.", ""} {
		if d, err := m.OpenDisk(name, false); err == nil {
			d.Close()
			t.Errorf("opened %q", name)
		}
	}
}

func TestWorldWideName(t *testing.T) {
	for _, tt := range []struct{ name, page, wwn, extension string }{
		{"none", page(0x83, ""), "", ""},
		{"of the port, not the unit", page(0x83, string([]byte{1, 0x13, 0, 8})+"\x50\x00\x00\x00\x00\x00\x00\x01"), "", ""},
		{"longer one wins", page(0x83, naa("\x50\x00\x00\x00\x00\x00\x00\x01")+naa("\x60\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03")), "6000000000000002", "0000000000000003"},
		{"cut off", page(0x83, naa("\x50\x00\x00\x00\x00\x00\x00\x01")[:9]), "", ""},
		{"another page", page(0x80, naa("\x50\x00\x00\x00\x00\x00\x00\x01")), "", ""},
		{"empty", "", "", ""},
	} {
		if wwn, extension := worldWideName([]byte(tt.page)); wwn != tt.wwn || extension != tt.extension {
			t.Errorf("%s: got %q %q, want %q %q", tt.name, wwn, extension, tt.wwn, tt.extension)
		}
	}
}

func FuzzPages(f *testing.F) {
	f.Add([]byte(page(0x83, naa("\x50\x00\x00\x00\x00\x00\x00\x01"))))
	f.Add([]byte(page(0x80, "serial")))
	f.Add([]byte(page(0x89, strings.Repeat("A", 600))))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, c := range unitSerial(b) {
			if c < 0x20 || c > 0x7e {
				t.Errorf("serial with %q", c)
			}
		}
		if wwn, _ := worldWideName(b); wwn != "" && len(wwn) != 16 {
			t.Errorf("wwn %q", wwn)
		}
		ataIdentity(b)
	})
}
