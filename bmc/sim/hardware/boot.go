package hardware

import (
	"context"
	"fmt"

	"bessemer/agent/hw"
	"bessemer/bmc/sim/tinyos"
)

// Boot starts what is on the machine's disks, as its firmware does; see
// [tinyos.Start].
func (m *Machine) Boot(ctx context.Context) (tinyos.System, error) {
	list, err := m.Disks(ctx)
	if err != nil {
		return tinyos.System{}, err
	}
	var disks []tinyos.Disk
	for _, w := range list {
		if w.VirtualMedia || w.Removable || w.Size == 0 || m.path(w) == "" {
			continue
		}
		d, err := m.OpenDisk(w.Name, false)
		if err != nil {
			return tinyos.System{}, fmt.Errorf("boot disk: %w", err)
		}
		defer d.Close()
		disks = append(disks, tinyos.Disk{ReaderAt: d, Name: w.Name, Size: d.Size(), Sector: d.SectorSize()})
	}
	var entries []hw.BootEntry
	var order []int
	if m.c.EFI != nil {
		if entries, err = m.c.EFI.Entries(); err != nil {
			return tinyos.System{}, fmt.Errorf("boot disk: read boot entries: %w", err)
		}
		order = m.c.EFI.Order()
	}
	return tinyos.Start(disks, m.BootMode(), entries, order)
}
