package disk

import (
	"errors"
	"strings"
	"testing"

	"bessemer/agent/wire"
)

var someDisks = []wire.Disk{
	{Name: "/dev/sda", Model: "QEMU HARDDISK", Vendor: "ATA", Size: 10 * gib, Rotational: true, Serial: "S1 ABC", WWN: "0x5000c500a1", WWNWithExtension: "0x5000c500a10001", WWNVendorExtension: "0x0001", HCTL: "0:0:0:0", ByPath: "/dev/disk/by-path/pci-0000:00:1f.2-ata-1", Transport: "sata"},
	{Name: "/dev/nvme0n1", Model: "Samsung PM9A3", Size: 960 * gib, Serial: "S2", WWN: "eui.0011", Transport: "nvme"},
	{Name: "/dev/sdb", Model: "QEMU HARDDISK", Vendor: "ATA", Size: 10*gib + gib/4, Rotational: true, Serial: "S3", Transport: "sata"},
	{Name: "/dev/sdc", Model: "SD Card", Size: 32 * gib, Serial: "S4", Removable: true},
	{Name: "/dev/sdd", Model: "Virtual Floppy", Vendor: "AMI", Size: 8 * gib, VirtualMedia: true},
	{Name: "/dev/sde", Model: "Locked", Size: 8 * gib, ReadOnly: true},
	{Name: "/dev/sdf", Model: "Empty"},
	{Name: "/dev/sdg", Model: "Small", Size: 2 * gib, Serial: "S7"},
	{Name: "/dev/zram0", Size: 6 * gib},
}

func TestSelect(t *testing.T) {
	type m = map[string]any
	for _, tt := range []struct {
		hints m
		want  string // "" : no disk matches
	}{
		{nil, "/dev/sda"},
		{m{}, "/dev/sda"},
		{m{"size": nil}, "/dev/sda"},
		{m{"size": 10}, "/dev/sda"},
		{m{"size": 10.0}, "/dev/sda"},
		{m{"size": "10"}, "/dev/sda"},
		{m{"size": 960}, "/dev/nvme0n1"},
		{m{"size": 2}, "/dev/sdg"},
		{m{"size": ">= 11"}, "/dev/nvme0n1"},
		{m{"size": ">10"}, "/dev/sdb"},
		{m{"size": "<= 2"}, "/dev/sdg"},
		{m{"size": "< 2"}, ""},
		{m{"size": "= 500"}, "/dev/nvme0n1"},
		{m{"size": "!= 10", "model": "<in> PM9"}, "/dev/nvme0n1"},
		{m{"size": "<or> 3 <or> 960"}, "/dev/nvme0n1"},
		{m{"size": "<range-in> [ 900 1000 ]"}, "/dev/nvme0n1"},
		{m{"size": "<range-in> ( 10 11 )"}, "/dev/sdb"},
		{m{"size": "<range-in> ( 960 2000 ]"}, ""},
		{m{"model": "QEMU HARDDISK"}, "/dev/sda"},
		{m{"model": "qemu  harddisk"}, "/dev/sda"},
		{m{"model": "s== samsung pm9a3"}, "/dev/nvme0n1"},
		{m{"model": "<in> samsung"}, "/dev/nvme0n1"},
		{m{"model": "<all-in> qemu disk"}, "/dev/sda"},
		{m{"model": "<or> nothing <or> Samsung PM9A3"}, "/dev/nvme0n1"},
		{m{"model": "s!= QEMU HARDDISK", "size": "> 4"}, "/dev/nvme0n1"},
		{m{"vendor": "ATA"}, "/dev/sda"},
		{m{"vendor": "s!= ATA"}, ""}, // what is not known matches nothing
		{m{"serial": "S3"}, "/dev/sdb"},
		{m{"serial": "s1 abc"}, "/dev/sda"},
		{m{"serial": "S1%20ABC"}, "/dev/sda"},
		{m{"serial": "s>= S3"}, "/dev/sdg"},
		{m{"wwn": "0x5000C500A1"}, "/dev/sda"},
		{m{"wwn": "eui.0011"}, "/dev/nvme0n1"},
		{m{"wwn_with_extension": "0x5000c500a10001"}, "/dev/sda"},
		{m{"wwn_vendor_extension": "0x0001"}, "/dev/sda"},
		{m{"hctl": "0:0:0:0"}, "/dev/sda"},
		{m{"by_path": "<in> ata-1"}, "/dev/sda"},
		{m{"name": "/dev/sdb"}, "/dev/sdb"},
		{m{"name": "s== /dev/nvme0n1"}, "/dev/nvme0n1"},
		{m{"tran": "nvme"}, "/dev/nvme0n1"},
		{m{"rotational": false, "size": "> 4"}, "/dev/nvme0n1"},
		{m{"rotational": "False", "size": "> 4"}, "/dev/nvme0n1"},
		{m{"rotational": true, "serial": "S3"}, "/dev/sdb"},
		{m{"name": "/dev/sdc"}, ""}, // removable
		{m{"name": "/dev/sdd"}, ""}, // virtual media
		{m{"name": "/dev/sde"}, ""}, // read-only
		{m{"name": "/dev/sdf"}, ""}, // empty
		{m{"name": "/dev/zram0"}, ""},
		{m{"serial": "S9"}, ""},
	} {
		d, why, err := Select(someDisks, tt.hints)
		switch {
		case tt.want == "" && !errors.Is(err, ErrNoRoot):
			t.Errorf("%v: got %s, %v; want ErrNoRoot", tt.hints, d.Name, err)
		case tt.want != "" && (err != nil || d.Name != tt.want || why == ""):
			t.Errorf("%v: got %s (%s), %v; want %s and a reason", tt.hints, d.Name, why, err, tt.want)
		}
	}
}

func TestSelectSaysWhyNot(t *testing.T) {
	_, _, err := Select(someDisks, map[string]any{"serial": "S9"})
	for _, want := range []string{
		"serial S9", "/dev/sda (ATA QEMU HARDDISK, 10.0 GiB): serial is S1 ABC", "/dev/sdc (SD Card, 32.0 GiB): is removable",
		"virtual media", "read-only", "size of 0",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if _, _, err := Select(nil, nil); !errors.Is(err, ErrNoRoot) || !strings.Contains(err.Error(), "no disks") {
		t.Errorf("machine without disks: %v", err)
	}
	if _, _, err := Select(someDisks[7:8], nil); !errors.Is(err, ErrNoRoot) || !strings.Contains(err.Error(), "4 GiB") {
		t.Errorf("one small disk, no hints: %v", err)
	}
}

func TestEqualDisksAreChosenByName(t *testing.T) {
	ds := []wire.Disk{{Name: "/dev/sdc", Size: 5 * gib}, {Name: "/dev/sdb", Size: 5 * gib}, {Name: "/dev/sda", Size: 9 * gib}}
	if d, why, err := Select(ds, nil); d.Name != "/dev/sdb" || !strings.Contains(why, "of 3") {
		t.Errorf("got %s, %q, %v; want /dev/sdb, the smallest of 3", d.Name, why, err)
	}
}

func TestBadHints(t *testing.T) {
	for _, h := range []map[string]any{
		{"colour": "red"},
		{"size": "large"},
		{"size": ""},
		{"size": ">="},
		{"size": "<range-in> 1 2"},
		{"size": "<range-in> [ 1 ]"},
		{"size": "<range-in> [ a b ]"},
		{"rotational": "perhaps"},
		{"model": ""},
		{"model": "<or> a <or>"},
		{"model": "<all-in>"},
	} {
		if _, _, err := Select(someDisks, h); err == nil || errors.Is(err, ErrNoRoot) {
			t.Errorf("%v: %v, want an error about the hint", h, err)
		}
	}
}

func FuzzHint(f *testing.F) {
	for _, s := range []string{"s== x", "<or> a <or> b", "<range-in> [ 1 2 )", ">= 4", "<all-in> a b", "<in>", "%zz"} {
		f.Add("size", s)
		f.Add("model", s)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		d, why, err := Select(someDisks, map[string]any{name: text})
		if err == nil && (d.Name == "" || why == "" || Unusable(d) != "") {
			t.Errorf("%q %q chose %q because %q", name, text, d.Name, why)
		}
	})
}
