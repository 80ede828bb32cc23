package agent

import (
	"context"
	"fmt"
	"time"

	"bessemer/agent/disk"
	"bessemer/agent/wire"
)

// disks lists the machine's disks, each once. A disk with several paths to it
// shows as several disks here, as nothing joins them (K-07); the first path that
// can be read stands for all, and the others are not touched.
func (x *executor) disks(ctx context.Context) ([]wire.Disk, error) {
	all, err := x.machine.Disks(ctx)
	if err != nil {
		return nil, fmt.Errorf("list disks: %w", err)
	}
	var out []wire.Disk
	for i, d := range all {
		var paths []wire.Disk
		seen := false
		for j, other := range all {
			if i == j || samePlace(d, other) {
				paths = append(paths, other)
				seen = seen || j < i
			}
		}
		if !seen {
			out = append(out, x.working(paths))
		}
	}
	return out, nil
}

// samePlace reports whether two disks are paths to one. A name alone does not
// tell: there are series of disks with one WWN for all.
func samePlace(a, b wire.Disk) bool {
	return a.WWN != "" && a.WWN == b.WWN && a.WWNWithExtension == b.WWNWithExtension &&
		a.Serial != "" && a.Serial == b.Serial && a.Size == b.Size && a.Model == b.Model
}

// working is the first of several paths that can be read, or else the first.
func (x *executor) working(paths []wire.Disk) wire.Disk {
	if len(paths) == 1 {
		return paths[0]
	}
	for _, p := range paths {
		err := x.probe(p.Name)
		if err == nil {
			return p
		}
		x.Logger.Warn().Str("disk", p.Name).Err(err).Msg("path to a disk does not work, trying another")
	}
	return paths[0]
}

func (x *executor) probe(name string) error {
	d, err := x.machine.OpenDisk(name, false)
	if err != nil {
		return err
	}
	defer d.Close()
	_, err = d.ReadAt(make([]byte, d.SectorSize()), 0)
	return err
}

// awaitDisks waits until the disks are there that are to be wiped: the root
// device if hints ask for one, else any (K-05). A disk that comes later would
// keep what is on it, so a root device that stays away is an error.
func (x *executor) awaitDisks(ctx context.Context, hints map[string]any) error {
	if len(hints) > 0 {
		_, _, err := x.rootDevice(ctx, hints)
		return err
	}
	for until := time.Now().Add(x.DiskWait); ; {
		all, err := x.disks(ctx)
		if err != nil || time.Now().After(until) {
			return err
		}
		for _, d := range all {
			if disk.Unusable(d) == "" {
				return nil
			}
		}
		if err := sleep(ctx, min(time.Second, x.DiskWait/4)); err != nil {
			return err
		}
	}
}
