package tinyos

import (
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
	Config       string // where the config drive is, "" when there is none: "partition 3, iso9660"
	Hostname     string
	InstanceUUID string
	SSHKeys      []string // in the order of their names
	UserData     []byte
	NetworkData  []byte // JSON
}

// fallback is what UEFI starts when no boot entry leads anywhere (UEFI 2.10,
// 3.5.1.1); its separators are a FAT path's.
const fallback = "EFI/BOOT/BOOTX64.EFI"

// Boot starts a disk as a machine does. Mode is "uefi" or "bios"; sector is
// the disk's logical sector size. UEFI follows the boot entries in order, then
// tries the fallback; BIOS needs boot code. Then the system looks for its
// config drive. The error says why the machine does not come up.
func Boot(disk io.ReaderAt, size int64, sector int, mode string, entries []hw.BootEntry, order []int) (System, error) {
	v := volume{disk, size, int64(sector)}
	t, err := v.table()
	if err != nil {
		return System{}, fmt.Errorf("boot disk: %w", err)
	}
	var s System
	if mode == bios {
		s.From, err = t.bios()
	} else {
		s.From, err = t.uefi(entries, order)
	}
	if err == nil {
		err = t.system()
	}
	if err != nil {
		return System{}, fmt.Errorf("boot disk by %s: %w", mode, err)
	}
	if err := t.configure(&s); err != nil {
		return System{}, fmt.Errorf("config drive: %w", err)
	}
	return s, nil
}

// bios starts the MBR's code.
func (t *table) bios() (string, error) {
	switch {
	case !t.signed:
		return "", errors.New("no boot signature in the first sector")
	case !t.code:
		return "", errors.New("no boot code in the first sector")
	}
	return "MBR", nil
}

// uefi starts a loader.
func (t *table) uefi(entries []hw.BootEntry, order []int) (string, error) {
	var tried []string
	for _, n := range order {
		i := slices.IndexFunc(entries, func(e hw.BootEntry) bool { return e.Number == n })
		if i < 0 || !entries[i].Active || entries[i].PartUUID == "" {
			continue
		}
		e := entries[i]
		p, ok := t.byUUID(e.PartUUID)
		if !ok {
			tried = append(tried, fmt.Sprintf("boot entry %04X: partition %s is not there", n, e.PartUUID))
			continue
		}
		if err := t.load(p, strings.ReplaceAll(e.Loader, `\`, "/")); err != nil {
			tried = append(tried, fmt.Sprintf("boot entry %04X: %v", n, err))
			continue
		}
		return fmt.Sprintf("boot entry %04X %s", n, e.Loader), nil
	}
	if t.kind == "" {
		return "", errors.New("no GPT and no MBR")
	}
	for _, p := range t.parts {
		if !p.esp {
			continue
		}
		err := t.load(p, fallback)
		if err == nil {
			return fallback, nil
		}
		tried = append(tried, err.Error())
	}
	if len(tried) == 0 {
		return "", errors.New("no EFI system partition")
	}
	return "", errors.New(strings.Join(tried, "; "))
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
