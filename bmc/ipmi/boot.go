package ipmi

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bessemer/bmc"
)

// Parameters of Set System Boot Options (table 28-14), and bits of the boot
// flags.
const (
	paramInProgress = 0
	paramKeepValid  = 3
	paramInfoAck    = 4
	paramBootFlags  = 5

	flagValid      = 0x80
	flagPersistent = 0x40
	flagEFI        = 0x20
)

// selectors are the boot device selectors, as they stand in the second byte
// of the boot flags.
var selectors = []struct {
	device bmc.BootDevice
	value  byte
}{
	{bmc.PXE, 0x04},
	{bmc.Disk, 0x08},
	{bmc.CDROM, 0x14},
	{bmc.BIOSSetup, 0x18},
	{bmc.Safe, 0x0c},
}

const remoteDisk = 0x24 // what Supermicro wants for a disk under UEFI

// BootDevices implements [bmc.Driver].
func (d *driver) BootDevices(ctx context.Context) ([]bmc.BootDevice, error) {
	var ds []bmc.BootDevice
	for _, s := range selectors {
		ds = append(ds, s.device)
	}
	return ds, ctx.Err()
}

// Boot implements [bmc.Driver].
func (d *driver) Boot(ctx context.Context) (bmc.Boot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unread {
		return bmc.Boot{}, fmt.Errorf("%w: the controller says that no boot device is set, even right after it took one", bmc.ErrNoReadBack)
	}
	return d.readBoot(ctx)
}

func (d *driver) readBoot(ctx context.Context) (bmc.Boot, error) {
	answer, err := d.run(ctx, cmdGetBoot, paramBootFlags, 0, 0)
	if code(err) == codeNoParameter { // none was ever set
		return bmc.Boot{}, nil
	}
	if err != nil {
		return bmc.Boot{}, err
	}
	return parseBoot(answer)
}

// parseBoot decodes the answer with the boot flags: version, parameter and
// five bytes of flags.
func parseBoot(b []byte) (bmc.Boot, error) {
	const marked = 0x80 // the parameter as a whole is not valid
	if len(b) < 4 || b[1]&^marked != paramBootFlags {
		return bmc.Boot{}, fmt.Errorf("%s: %w", cmdGetBoot.name, errMalformed)
	}
	if b[1]&marked != 0 || b[2]&flagValid == 0 {
		return bmc.Boot{}, nil
	}
	boot := bmc.Boot{Mode: "bios", Persistent: b[2]&flagPersistent != 0}
	if b[2]&flagEFI != 0 {
		boot.Mode = "uefi"
	}
	value := b[3] & 0x3c
	if value == remoteDisk {
		boot.Device = bmc.Disk
	}
	for _, s := range selectors {
		if s.value == value {
			boot.Device = s.device
		}
	}
	if boot.Device == "" {
		return bmc.Boot{}, nil
	}
	return boot, nil
}

// SetBoot implements [bmc.Driver].
func (d *driver) SetBoot(ctx context.Context, b bmc.Boot) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.Mode != "" && b.Mode != "uefi" && b.Mode != "bios" {
		return fmt.Errorf("boot mode %q: %w: use uefi or bios", b.Mode, bmc.ErrUnsupported)
	}
	if err := d.setBoot(ctx, b); err != nil {
		return err
	}
	if b.Device == "" {
		return nil
	}
	// Some say for ever that nothing is set. Only a look right now tells that
	// from a setting that was used up by a boot.
	now, err := d.readBoot(ctx)
	d.unread = err == nil && now.Device == ""
	return nil
}

// setBoot writes the boot flags. A controller may refuse a lasting device
// (B-04); it is then set for the next boot, and again before each start.
func (d *driver) setBoot(ctx context.Context, b bmc.Boot) error {
	flags, err := d.flags(ctx, b)
	if err != nil {
		return err
	}
	if d.once {
		flags[0] &^= flagPersistent
	}
	kept, err := d.writeFlags(ctx, flags)
	if err != nil && code(err) != 0 && flags[0]&flagPersistent != 0 {
		flags[0] &^= flagPersistent
		var again error
		if kept, again = d.writeFlags(ctx, flags); again == nil {
			d.once, err = true, nil
		}
	}
	if err != nil {
		return err
	}
	if d.once && b.Persistent {
		bmc.Note(ctx, fmt.Sprintf("the controller takes boot device %s for one boot only; it is set again before each start", b.Device))
	}
	d.boot, d.bootAt, d.kept = b, time.Now(), kept
	return nil
}

// writeFlags writes boot flags. All around them is courtesy, which some
// controllers refuse; they then take the flags nevertheless (H12). Kept says
// that it took the order to keep them.
func (d *driver) writeFlags(ctx context.Context, flags []byte) (kept bool, err error) {
	for _, step := range []struct {
		data []byte
		must bool
	}{
		{[]byte{paramInProgress, 1}, false},
		{d.keepValid(), false},
		{[]byte{paramInfoAck, 1, 1}, false}, // the BIOS has not yet handled it
		{append([]byte{paramBootFlags}, flags...), true},
		{[]byte{paramInProgress, 0}, false},
	} {
		if step.data == nil {
			continue
		}
		_, err := d.run(ctx, cmdSetBoot, step.data...)
		if err != nil && (step.must || code(err) == 0) {
			return kept, err
		}
		if step.data[0] == paramKeepValid {
			kept = err == nil && !d.noKeep
		}
	}
	return kept, nil
}

// keepValid keeps the flags beyond the 60 seconds after which a controller
// may forget them if the machine has not been powered on (I-03).
func (d *driver) keepValid() []byte {
	const no60sTimeout = 0x08
	switch {
	case d.noKeep:
		return []byte{paramKeepValid, 0}
	case d.s.keepFlags:
		return []byte{paramKeepValid, no60sTimeout}
	}
	return nil
}

// lastMode is the boot mode in the answer with the boot flags, be they valid
// or not; "" where they were never set.
func lastMode(b []byte) string {
	switch {
	case len(b) < 4 || b[2] == 0 && b[3] == 0:
		return ""
	case b[2]&flagEFI != 0:
		return "uefi"
	}
	return "bios"
}

// flags returns the five bytes of boot flags for a setting; for none, without
// the valid bit. The mode is always said: without the EFI bit many a machine
// boots in legacy mode, even where it is only told to forget a device (I-01).
// When it is not asked for, it stays as the flags have it, and is EFI where
// they have none.
func (d *driver) flags(ctx context.Context, b bmc.Boot) ([]byte, error) {
	i := slices.IndexFunc(selectors, func(s struct {
		device bmc.BootDevice
		value  byte
	},
	) bool {
		return s.device == b.Device
	})
	if i < 0 && b.Device != "" {
		return nil, fmt.Errorf("boot device %q: %w", b.Device, bmc.ErrUnsupported)
	}
	mode := b.Mode
	if mode == "" {
		answer, err := d.run(ctx, cmdGetBoot, paramBootFlags, 0, 0)
		if err != nil && code(err) == 0 {
			return nil, err
		}
		mode = lastMode(answer)
	}
	first := byte(0)
	if mode != "bios" {
		first |= flagEFI
	}
	if b.Device == "" {
		return []byte{first, 0, 0, 0, 0}, nil
	}
	first |= flagValid
	value := selectors[i].value
	if b.Persistent {
		first |= flagPersistent
	}
	if b.Device == bmc.Disk && mode != "bios" {
		q, err := d.quirks(ctx)
		if err != nil {
			return nil, err
		}
		if q.remoteDiskForUEFI {
			value = remoteDisk
		}
	}
	return []byte{first, value, 0, 0, 0}, nil
}
