package agent

import (
	"context"
	"fmt"

	"bessemer/agent/disk"
)

// partitionUUIDs tells what was written: the disk's identifier and the
// partitions by number. Before anything was written it tells nothing.
func (x *executor) partitionUUIDs(context.Context, params, *job) (map[string]any, error) {
	name := x.writtenDisk()
	if name == "" {
		return map[string]any{}, nil
	}
	t, err := x.readTable(name)
	if err != nil {
		return nil, fail("DeviceNotFound", "Error reading partitions", err)
	}
	parts := map[string]any{}
	for _, p := range t.Partitions {
		parts[fmt.Sprint(p.Number)] = p.UUID
	}
	out := map[string]any{"partitions": parts}
	if t.DiskID != "" {
		out["root uuid"] = t.DiskID
	}
	if esp := t.ESP(); esp != nil {
		out["efi system partition uuid"] = esp.UUID
	}
	return out, nil
}

func (x *executor) writtenDisk() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.written
}

func (x *executor) readTable(name string) (disk.Table, error) {
	d, err := x.machine.OpenDisk(name, false)
	if err != nil {
		return disk.Table{}, fmt.Errorf("open %s: %w", name, err)
	}
	defer d.Close()
	t, err := disk.ReadTable(d)
	if err != nil {
		return t, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

func (x *executor) sync(context.Context, params, *job) (map[string]any, error) {
	x.machine.Sync()
	return nil, nil
}

// runImage boots what was written.
func (x *executor) runImage(ctx context.Context, _ params, _ *job) (map[string]any, error) {
	return nil, fail("SystemRebootError", "Error rebooting system", x.end(ctx, "reboot", x.machine.Reboot))
}

func (x *executor) powerOff(ctx context.Context, _ params, _ *job) (map[string]any, error) {
	return nil, fail("SystemRebootError", "Error powering off system", x.end(ctx, "power off", x.machine.PowerOff))
}
