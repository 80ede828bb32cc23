package hardware

import (
	"errors"
	"fmt"
	"syscall"

	"bessemer/agent/hw"
	"bessemer/bmc/sim"
)

// EFI implements hw.Machine.
func (m *Machine) EFI() hw.EFI {
	if m.BootMode() == sim.BIOS || m.c.EFI == nil {
		return nil
	}
	return nvram{m.c.EFI, m}
}

// nvram is the variables with their quirks.
type nvram struct {
	*hw.FakeEFI
	machine *Machine
}

// SetEntry implements hw.EFI. With U-06 there is no room; with U-04 the entry is
// gone as soon as the machine is.
func (v nvram) SetEntry(label, loader string, part hw.Partition) (int, error) {
	switch {
	case v.machine.cut.Load():
		return 0, errors.New("write boot entry: the machine has no power")
	case v.machine.c.Flaws.On("U-06"):
		return 0, fmt.Errorf("write boot entry: %w", syscall.ENOSPC)
	case v.machine.c.Flaws.On("U-04"):
		return (&hw.FakeEFI{}).SetEntry(label, loader, part)
	}
	return v.FakeEFI.SetEntry(label, loader, part)
}
