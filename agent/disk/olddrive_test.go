package disk

import (
	"errors"
	"slices"
	"testing"
)

// TestDropConfigDrives: the config drive goes, the other partitions and what is
// in them stay (K-25).
func TestDropConfigDrives(t *testing.T) {
	fat, err := MakeFAT(map[string][]byte{"openstack/latest/meta_data.json": []byte("{}")}, ConfigLabel, 512)
	if err != nil {
		t.Fatal(err)
	}
	for name, image := range map[string][]byte{"GPT": gptImage(8<<20, 512, Partition{Type: TypeLinux, UUID: "aaaaaaaa-0000-4000-8000-000000000001", Name: "root", First: 2048, Last: 4095}), "MBR": mbrImage()} {
		d, _ := newDisk(t, 32<<20, 512)
		write(t, d, image)
		if _, err := Settle(d); err != nil {
			t.Fatal(err)
		}
		before, err := ReadTable(d)
		if err != nil {
			t.Fatal(err)
		}
		if has, err := HasConfigDrive(d); has || err != nil {
			t.Errorf("%s: a config drive is found before there is one (%v)", name, err)
		}
		p, _, err := WriteConfigDrive(d, fat)
		if err != nil {
			t.Fatal(err)
		}
		if has, err := HasConfigDrive(d); !has || err != nil {
			t.Errorf("%s: the config drive is not found (%v)", name, err)
		}
		for range 2 {
			if err := DropConfigDrives(d); err != nil {
				t.Fatal(err)
			}
		}
		if has, err := HasConfigDrive(d); has || err != nil {
			t.Errorf("%s: the config drive is still found (%v)", name, err)
		}
		after, err := ReadTable(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, was := range before.Partitions {
			if !slices.Contains(after.Partitions, was) {
				t.Errorf("%s: partition %+v is not in %+v", name, was, after.Partitions)
			}
		}
		head := make([]byte, 512)
		if _, err := d.ReadAt(head, p.Offset(512)); err != nil || !allZero(head) {
			t.Errorf("%s: its content is still there (%v)", name, err)
		}
	}
}

// A disk that others may be using is left alone (K-09).
func TestDropConfigDrivesRefusesSharedDisks(t *testing.T) {
	d, _ := newDisk(t, 32<<20, 512)
	write(t, d, mbrImage())
	if _, err := d.WriteAt([]byte("\x0d\xd0\x01\xc0"), 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := DropConfigDrives(d); !errors.Is(err, ErrShared) {
		t.Errorf("got %v, want a refusal", err)
	}
}
