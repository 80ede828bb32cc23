package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bessemer/agent/disk"
	"bessemer/agent/hw"
)

// bootParams are the parameters of image.install_bootloader. The UUIDs that
// Ironic sends along are not needed: the partition table says it all.
type bootParams struct {
	Mode string `json:"target_boot_mode"`
	Arch string `json:"-"`
}

// installBootloader makes the firmware start what was written: on UEFI by a
// boot entry, on BIOS by nothing, since the image brings its own boot code. An
// image for the other firmware is named here, before the reboot (U-07).
func (x *executor) installBootloader(ctx context.Context, p params, _ *job) (map[string]any, error) {
	how, err := x.bootloader(ctx, p)
	if err != nil {
		return nil, fail("DeviceNotFound", "Error installing the boot loader", err)
	}
	return map[string]any{"result": "install_bootloader: " + how.said, "boot_entry": how.entry}, nil
}

// A loading is how the firmware starts what was written.
type loading struct {
	said  string
	entry bool // by a boot entry that was made
}

func (x *executor) bootloader(ctx context.Context, p params) (loading, error) {
	var in bootParams
	if err := p.into(&in); err != nil {
		return loading{}, err
	}
	inv, err := x.machine.Inventory(ctx)
	if err != nil {
		return loading{}, fmt.Errorf("read inventory: %w", err)
	}
	in.Arch = inv.CPU.Architecture
	efi := x.machine.EFI()
	mode := strings.ToLower(in.Mode)
	if mode == "" {
		mode = map[bool]string{true: "uefi", false: "bios"}[efi != nil]
	}
	name := x.writtenDisk()
	if name == "" {
		return loading{}, errors.New("no image was written since this ramdisk booted")
	}
	d, err := x.machine.OpenDisk(name, false)
	if err != nil {
		return loading{}, fmt.Errorf("open %s: %w", name, err)
	}
	defer d.Close()
	t, err := disk.ReadTable(d)
	if err != nil {
		return loading{}, fmt.Errorf("%s: %w", name, err)
	}
	if mode == "bios" {
		return checkBIOS(t)
	}
	return bootEntry(d, t, efi, in.Arch)
}

// checkBIOS looks whether the image could boot by BIOS at all.
func checkBIOS(t disk.Table) (loading, error) {
	if !t.BootCode {
		return loading{}, errors.New("boot mode mismatch: the image has no boot code for BIOS in its first sector, so it is for UEFI only; " +
			"set the node's boot_mode capability to uefi, or use an image for BIOS")
	}
	return loading{said: "BIOS: the image's own boot code is used"}, nil
}

// bootEntry finds the loader on the EFI system partition and enters it.
func bootEntry(d hw.Disk, t disk.Table, efi hw.EFI, arch string) (loading, error) {
	esp := t.ESP()
	if esp == nil {
		return loading{}, errors.New("boot mode mismatch: the image has no EFI system partition, so it is for BIOS only; " +
			"set the node's boot_mode capability to bios, or use an image for UEFI")
	}
	f, err := disk.OpenFAT(d, *esp)
	if err != nil {
		return loading{}, fmt.Errorf("EFI system partition %d: %w", esp.Number, err)
	}
	fallback, hasFallback := f.Find("/EFI/BOOT/" + fallbackName(arch))
	l, ok := findLoader(f, arch)
	if !ok {
		return loading{}, fmt.Errorf("boot mode mismatch: EFI system partition %d has no boot loader for %s: neither a BOOT.CSV, a shim or grub, nor EFI/BOOT/%s",
			esp.Number, arch, fallbackName(arch))
	}
	switch {
	case efi == nil && hasFallback:
		return loading{said: "UEFI: this ramdisk was booted by BIOS, so no boot entry can be made; the firmware will find " + fallback}, nil
	case efi == nil:
		return loading{}, errors.New("boot mode mismatch: this ramdisk was booted by BIOS, so no boot entry for UEFI can be made, " +
			"and the image has no EFI/BOOT loader that the firmware finds by itself; boot the node in UEFI mode")
	case t.Scheme == disk.MBR && hasFallback:
		return loading{said: "UEFI: the disk has an MBR; the firmware will find " + fallback}, nil
	case t.Scheme == disk.MBR:
		return loading{}, errors.New("the image has an MBR and no EFI/BOOT loader that the firmware finds by itself; use an image with a GPT")
	}
	return enter(efi, l, *esp, t.SectorSize, fallback)
}

// enter writes the boot entry. When the firmware does not take it, the loader
// at the removable-media path still boots (U-06).
func enter(efi hw.EFI, l loader, esp disk.Partition, sector int, fallback string) (loading, error) {
	part := hw.Partition{Number: esp.Number, FirstLBA: esp.First, LastLBA: esp.Last, UUID: esp.UUID, SectorSize: sector}
	n, err := efi.SetEntry(l.label, strings.ReplaceAll(l.path, "/", `\`), part)
	switch {
	case err == nil:
		return loading{fmt.Sprintf("UEFI: boot entry %04X %q starts %s on partition %d", n, l.label, l.path, esp.Number), true}, nil
	case fallback != "":
		return loading{said: fmt.Sprintf("UEFI: no boot entry could be made (%v); the firmware will find %s", err, fallback)}, nil
	}
	return loading{}, fmt.Errorf("make boot entry for %s: %w; the image has no EFI/BOOT loader that the firmware finds by itself", l.path, err)
}
