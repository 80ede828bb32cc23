package hardware

import (
	"errors"
	"fmt"
	"io"

	"bessemer/agent/disk"
	"bessemer/agent/hw"
	"bessemer/agent/wire"
	"bessemer/bmc/sim/flaw"
	"bessemer/bmc/sim/tinyos"
)

// plants are what former owners left on disks, by the quirk and the disk's
// serial number; "" is the root disk. It is put there when a ramdisk starts and
// finds the disk without a partition table.
var plants = []struct {
	id     flaw.ID
	serial string
	put    func(hw.Disk) error
}{
	{"K-23", "", oldTable},
	{"K-08", "", oldArray},
	{"K-25", "old-drive", oldDrive},
	{"K-09", "shared-lun", sharedLUN},
}

// plant puts the plants of the quirks that are on.
func (m *Machine) plant() {
	for _, p := range plants {
		if !m.c.Flaws.On(p.id) || len(m.disks) == 0 {
			continue
		}
		serial := p.serial
		if serial == "" {
			serial = m.disks[0].Serial
		}
		for _, d := range m.quirky() {
			if d.Serial != serial || d.standby {
				continue
			}
			if err := d.edit(p.put); err != nil {
				m.planted = errors.Join(m.planted, fmt.Errorf("put %s onto %s: %w", p.id, d.Name, err))
			}
		}
	}
}

// edit changes a disk's file behind the machine's back, if nothing is on it.
func (d device) edit(put func(hw.Disk) error) error {
	f := &hw.Fake{
		Hardware: wire.Inventory{Disks: []wire.Disk{d.Disk}}, Volatile: true,
		Path: func(wire.Disk) string { return d.path },
	}
	open, err := f.OpenDisk(d.Name, true)
	if err != nil {
		return err
	}
	defer open.Close()
	head := make([]byte, 512)
	if _, err := open.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if head[510] == 0x55 && head[511] == 0xaa {
		return nil
	}
	return put(open)
}

// oldTable is a GPT with its backup at the end of the disk, and a system that
// boots no more.
func oldTable(d hw.Disk) error {
	image := append([]byte(nil), tinyos.Image()...)
	clear(image[64<<10 : 1<<20])
	if _, err := d.WriteAt(image, 0); err != nil {
		return err
	}
	_, err := disk.Settle(d)
	return err
}

// oldArray is a part of an md array (formats 0.90 and 1.0), with LVM on it.
func oldArray(d hw.Disk) error {
	const md = "\xfc\x4e\x2b\xa9"
	for at, text := range map[int64]string{
		512:                        "LABELONE",
		512 + 24:                   "LVM2 001",
		d.Size()&^0xffff - 64<<10:  md,
		(d.Size() - 8<<10) &^ 4095: md,
	} {
		if _, err := d.WriteAt([]byte(text), at); err != nil {
			return err
		}
	}
	return nil
}

// oldDrive is a disk with another owner's config drive.
func oldDrive(d hw.Disk) error {
	if err := oldTable(d); err != nil {
		return err
	}
	fat, err := disk.MakeFAT(map[string][]byte{
		"openstack/latest/meta_data.json": []byte(`{"uuid": "00000000-0000-4000-8000-00000000dead", "hostname": "former-owner"}`),
	}, disk.ConfigLabel, d.SectorSize())
	if err != nil {
		return err
	}
	_, _, err = disk.WriteConfigDrive(d, fat)
	return err
}

// sharedLUN is a disk that other machines use at this moment: VMFS is on it.
func sharedLUN(d hw.Disk) error {
	_, err := d.WriteAt([]byte("\x0d\xd0\x01\xc0 somebody's virtual machines"), 1<<20)
	return err
}
