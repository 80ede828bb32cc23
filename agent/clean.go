package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bessemer/agent/disk"
	"bessemer/agent/wire"
)

// eraseMetadata removes all traces by which anything on the disks could be
// found. Disks that cannot be written to are only noted (K-10); a writable one
// that fails makes the whole fail, after the others have been dealt with.
func (x *executor) eraseMetadata(ctx context.Context, p, _ params, j *job) (string, error) {
	return x.eachDisk(ctx, "wipe metadata", p, wire.Progress{}, j, func(d wire.Disk, _ func(int64)) (string, error) {
		if note := notWiped(d); note != "" {
			return note, nil
		}
		f, err := x.machine.OpenDisk(d.Name, true)
		if err != nil {
			return "", err
		}
		defer f.Close()
		return "metadata wiped", disk.WipeMetadata(f)
	})
}

// eraseDevices makes every disk read as zeros. Here a read-only disk is a
// failure: what is on it would reach the next user (K-10).
//
// It is offered with Ironic-Python-Agent's priority, 10, so an Ironic that does
// not override it (erase_devices_priority = 0) runs it in automated cleaning,
// for hours on large disks. A priority of 0 would hand disks with data to the
// next user where the operator counts on their erasure. Bessemer's own server
// overrides it, and cleans with erase_devices_metadata.
func (x *executor) eraseDevices(ctx context.Context, p, _ params, j *job) (string, error) {
	total := wire.Progress{Total: 1}
	return x.eachDisk(ctx, "erase disks", p, total, j, func(d wire.Disk, done func(int64)) (string, error) {
		if note := notWiped(d); note != "" && !d.ReadOnly {
			return note, nil
		}
		if d.ReadOnly && !d.VirtualMedia {
			return "", errors.New("is read-only and cannot be erased")
		}
		f, err := x.machine.OpenDisk(d.Name, true)
		if err != nil {
			return "", err
		}
		defer f.Close()
		return "erased", disk.Erase(ctx, f, done)
	})
}

// notWiped says why a disk needs no wiping, or "". Removable disks are wiped:
// a card that stays in the machine is found by its next user.
func notWiped(d wire.Disk) string {
	d.Removable = false
	if why := disk.Unusable(d); why != "" {
		return "skipped: it " + why
	}
	return ""
}

// eachDisk does something to all disks and puts the outcomes into a sentence.
func (x *executor) eachDisk(ctx context.Context, what string, args params, p wire.Progress, j *job, do func(wire.Disk, func(int64)) (string, error)) (string, error) {
	err := x.awaitDisks(ctx, x.learn(args).rootHints())
	if err != nil {
		return "", fail("DeviceNotFound", "Error finding the disk to erase", err)
	}
	disks, err := x.disks(ctx)
	if err != nil {
		return "", fail("BlockDeviceEraseError", "Error erasing block device", err)
	}
	var said, failed []string
	var size, before int64
	for _, d := range disks {
		size += d.Size
	}
	for _, d := range disks {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		x.con.say("%s: %s", what, d.Name)
		report := func(done int64) {
			j.progress(wire.Progress{What: what + " " + d.Name, Done: before + done, Total: size})
		}
		if p.Total == 0 {
			report = func(int64) {}
		}
		outcome, err := do(d, report)
		if err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", d.Name, err))
		} else {
			said = append(said, fmt.Sprintf("%s: %s", d.Name, outcome))
		}
		before += d.Size
	}
	if len(failed) > 0 {
		return "", fail("BlockDeviceEraseError", "Error erasing block device",
			fmt.Errorf("%s: %s", what, strings.Join(append(failed, said...), "; ")))
	}
	if len(said) == 0 {
		return "the machine has no disks", nil
	}
	return strings.Join(said, "; "), nil
}
