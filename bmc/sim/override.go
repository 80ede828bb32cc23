package sim

import (
	"fmt"
	"slices"

	"bessemer/bmc"
)

// firmware is the part of a machine that survives power cycles: its boot
// override and boot mode. Its user locks it.
type firmware struct {
	modes    []string
	override bmc.Boot
	mode     string // of the last start
	next     string // of the next start
	started  []bmc.Boot
	ctl      *Controller // nil: none
}

func newFirmware(modes []string) firmware {
	return firmware{modes: modes, mode: modes[0], next: modes[0]}
}

func (f *firmware) setBoot(b bmc.Boot) error {
	switch b.Device {
	case "", bmc.PXE, bmc.Disk, bmc.CDROM:
	default:
		return fmt.Errorf("set boot device %q: %w", b.Device, ErrBootDevice)
	}
	if err := f.setMode(b.Mode); err != nil {
		return err
	}
	if b.Device == "" {
		b = bmc.Boot{}
	}
	f.override = b
	return nil
}

func (f *firmware) setMode(mode string) error {
	if mode == "" {
		return nil
	}
	if !slices.Contains(f.modes, mode) {
		return fmt.Errorf("set boot mode %q: %w, which has %v", mode, ErrBootMode, f.modes)
	}
	f.next = mode
	return nil
}

// start returns what the machine boots from now, and uses up an override that
// was for one boot only. A controller's quirks may have it otherwise.
func (f *firmware) start() bmc.Boot {
	f.mode = f.next
	b := f.override
	b.Mode = f.mode
	if !f.override.Persistent {
		f.override = bmc.Boot{}
	}
	if f.ctl != nil {
		b = f.ctl.Heeds(b)
	}
	f.started = append(f.started, b)
	return b
}

// bootOrder is the order in which the firmware tries devices: the override,
// then what a machine without any does.
func bootOrder(first bmc.BootDevice) []bmc.BootDevice {
	order := []bmc.BootDevice{bmc.Disk, bmc.CDROM, bmc.PXE}
	if i := slices.Index(order, first); i > 0 {
		order = slices.Insert(slices.Delete(order, i, i+1), 0, first)
	}
	return order
}
