package tinyos

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"bessemer/agent/hw"
)

// bios is the boot mode of old firmware; the other is "uefi".
const bios = "bios"

// A System is what was found on a disk that boots.
type System struct {
	From         string // what the firmware started: "boot entry 0001 \EFI\BOOT\BOOTX64.EFI", "EFI/BOOT/BOOTX64.EFI", "MBR"
	Disk         string // where that was, as the disk was named
	Config       string // where the config drive is, "" when there is none: "partition 3, iso9660"
	Hostname     string
	InstanceUUID string
	SSHKeys      []string // in the order of their names
	UserData     []byte
	NetworkData  []byte // JSON
}

// A Disk is what a machine may boot from.
type Disk struct {
	io.ReaderAt
	Name   string
	Size   int64 // bytes
	Sector int   // logical sector size, bytes
}

// fallback is what UEFI starts when no boot entry leads anywhere (UEFI 2.10,
// 3.5.1.1); its separators are a FAT path's.
const fallback = "EFI/BOOT/BOOTX64.EFI"

// Start starts a machine from its disks, in the order in which its firmware
// looks at them. Mode is "uefi" or "bios". UEFI follows the boot entries in
// order, then tries the fallback on each disk; BIOS takes the first disk with
// boot code. Then the system looks for its config drive on all disks. The error
// says why the machine does not come up; a System with From is that of one that
// was started and hangs.
func Start(disks []Disk, mode string, entries []hw.BootEntry, order []int) (System, error) {
	f := firmware{mode: mode}
	for _, d := range disks {
		v := volume{d, d.Name, d.Size, int64(d.Sector)}
		t, err := v.table()
		if err != nil {
			f.failed(v.named(err))
			continue
		}
		f.tables = append(f.tables, t)
	}
	t, from := f.start(entries, order)
	if t == nil {
		if len(f.why) == 0 {
			f.failed(errors.New("there is no disk"))
		}
		return System{}, fmt.Errorf("boot disk by %s: %s", mode, strings.Join(f.why, "; "))
	}
	s := System{From: from, Disk: t.name}
	if err := t.system(); err != nil {
		return s, fmt.Errorf("boot disk by %s: %w", mode, t.named(err))
	}
	if err := configure(f.tables, &s); err != nil {
		return s, fmt.Errorf("config drive: %w", err)
	}
	return s, nil
}

// firmware looks for something to start.
type firmware struct {
	mode   string
	tables []*table
	why    []string // what was tried does not boot
}

func (f *firmware) failed(err error) { f.why = append(f.why, err.Error()) }

func (f *firmware) start(entries []hw.BootEntry, order []int) (t *table, from string) {
	if f.mode == bios {
		for _, t := range f.tables {
			if err := t.bios(); err != nil {
				f.failed(t.named(err))
				continue
			}
			return t, "MBR"
		}
		return nil, ""
	}
	for _, n := range order {
		i := slices.IndexFunc(entries, func(e hw.BootEntry) bool { return e.Number == n })
		if i < 0 || !entries[i].Active || entries[i].PartUUID == "" {
			continue
		}
		if t := f.follow(entries[i]); t != nil {
			return t, fmt.Sprintf("boot entry %04X %s", n, entries[i].Loader)
		}
	}
	for _, t := range f.tables {
		if err := t.fallback(); err != nil {
			f.failed(t.named(err))
			continue
		}
		return t, fallback
	}
	return nil, ""
}

// follow starts a boot entry.
func (f *firmware) follow(e hw.BootEntry) *table {
	for _, t := range f.tables {
		p, ok := t.byUUID(e.PartUUID)
		if !ok {
			continue
		}
		err := t.load(p, strings.ReplaceAll(e.Loader, `\`, "/"))
		if err == nil {
			return t
		}
		f.failed(fmt.Errorf("boot entry %04X: %w", e.Number, t.named(err)))
		return nil
	}
	f.failed(fmt.Errorf("boot entry %04X: partition %s is not there", e.Number, e.PartUUID))
	return nil
}

// bios looks whether a BIOS would start the disk.
func (t *table) bios() error {
	switch {
	case !t.signed:
		return errors.New("no boot signature in the first sector")
	case !t.code:
		return errors.New("no boot code in the first sector")
	}
	return nil
}

// fallback starts the loader that is found without a boot entry.
func (t *table) fallback() error {
	if t.kind == "" {
		return errors.New("no GPT and no MBR")
	}
	var tried []error
	for _, p := range t.parts {
		if !p.esp {
			continue
		}
		err := t.load(p, fallback)
		if err == nil {
			return nil
		}
		tried = append(tried, err)
	}
	return cmp.Or(errors.Join(tried...), errors.New("no EFI system partition"))
}

// load reads a loader and looks whether firmware would start it.
func (t *table) load(p partition, path string) error {
	fs, err := openFAT(t.section(p))
	if err != nil {
		return fmt.Errorf("partition %d: %w", p.number, err)
	}
	b, err := fs.read(path)
	if err != nil {
		return fmt.Errorf("loader missing on partition %d: %w", p.number, err)
	}
	if err := checkLoader(b); err != nil {
		return fmt.Errorf("loader %s on partition %d: %w", path, p.number, err)
	}
	return nil
}
