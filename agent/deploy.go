package agent

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"bessemer/agent/disk"
	"bessemer/agent/fetch"
	"bessemer/agent/hw"
	"bessemer/agent/image"
	"bessemer/agent/wire"
)

// imageParams are the arguments of write_image and standby.prepare_image.
type imageParams struct {
	Info        *wire.ImageInfo `json:"image_info"`
	ConfigDrive string          `json:"configdrive"`
}

func (p params) image() (imageParams, error) {
	var in imageParams
	if err := p.into(&in); err != nil {
		return in, err
	}
	switch {
	case in.Info == nil:
		return in, badParams("image_info is missing")
	case len(in.Info.URLs) == 0:
		return in, badParams("Image is missing 'urls' field.")
	case in.Info.Checksum == "" && (in.Info.OSHashAlgo == "" || in.Info.OSHashValue == ""):
		return in, badParams("Image checksum is not available, either the 'checksum' field or the 'os_hash_algo' and " +
			"'os_hash_value' fields pair must be set for image verification.")
	}
	if in.ConfigDrive == "" {
		in.ConfigDrive = in.Info.ConfigDrive
	}
	return in, nil
}

// checkImage refuses what could not be written anyway, before it is begun.
func checkImage(p params) error {
	_, err := p.image()
	return err
}

// prepareImage is standby.prepare_image: write_image under its old name.
func (x *executor) prepareImage(ctx context.Context, p params, j *job) (map[string]any, error) {
	said, err := x.writeImage(ctx, p, p, j)
	if err != nil {
		return nil, err
	}
	return map[string]any{"result": said}, nil
}

// writeImage writes an image and a config drive to the root device.
func (x *executor) writeImage(ctx context.Context, p, args params, j *job) (string, error) {
	in, err := args.image()
	if err != nil {
		return "", err
	}
	drive, err := x.configDrive(ctx, in.ConfigDrive)
	if err != nil {
		return "", fail("ConfigDriveError", "Error getting the config drive", err)
	}
	sum, err := x.checksum(ctx, *in.Info)
	if err != nil {
		return "", fail("ImageChecksumError", "Error verifying image checksum", err)
	}
	root, why, err := x.rootDevice(ctx, x.learn(p).rootHints())
	if err != nil {
		return "", fail("DeviceNotFound", "Error finding the disk or partition device to deploy the image onto", err)
	}
	x.con.say("root device %s: %s", root.Name, why)
	x.Logger.Info().Str("disk", root.Name).Str("why", why).Msg("root device chosen")
	d, err := x.machine.OpenDisk(root.Name, true)
	if err != nil {
		return "", fail("ImageWriteError", "Error writing image to device", fmt.Errorf("open %s: %w", root.Name, err))
	}
	defer d.Close()
	w := imageWrite{x: x, job: j, info: *in.Info, sum: sum, disk: d, root: root, drive: drive}
	said, err := w.run(ctx)
	if err != nil {
		return "", fail("ImageWriteError", "Error writing image to device", fmt.Errorf("write image %s to %s: %w", shortID(*in.Info), root.Name, err))
	}
	x.mu.Lock()
	x.written = root.Name
	x.mu.Unlock()
	dropped, err := x.dropOldDrives(ctx, root)
	if err != nil {
		return "", fail("ConfigDriveError", "Error removing an old config drive", err)
	}
	return said + dropped + "; chosen because: " + why, nil
}

// dropOldDrives removes config drives of former instances from the other disks:
// a system takes any that it finds, and with it another's name and keys (K-25).
func (x *executor) dropOldDrives(ctx context.Context, root wire.Disk) (said string, err error) {
	all, err := x.disks(ctx)
	if err != nil {
		return "", err
	}
	for _, d := range all {
		if d.Name == root.Name || disk.Unusable(d) != "" {
			continue
		}
		found, err := x.hasOldDrive(d.Name)
		if err != nil {
			x.Logger.Warn().Err(err).Str("disk", d.Name).Msg("look for an old config drive")
			continue // a system will not find anything on it either
		}
		if !found {
			continue
		}
		if err := x.dropOldDrive(d.Name); err != nil {
			return "", fmt.Errorf("%s holds a config drive of a former instance, which this one could take for its own: %w", d.Name, err)
		}
		x.con.say("old config drive removed from %s", d.Name)
		said += "; old config drive removed from " + d.Name
	}
	return said, nil
}

func (x *executor) hasOldDrive(name string) (bool, error) {
	d, err := x.machine.OpenDisk(name, false)
	if err != nil {
		return false, err
	}
	defer d.Close()
	return disk.HasConfigDrive(d)
}

func (x *executor) dropOldDrive(name string) error {
	d, err := x.machine.OpenDisk(name, true)
	if err != nil {
		return err
	}
	defer d.Close()
	return disk.DropConfigDrives(d)
}

func shortID(i wire.ImageInfo) string {
	if i.ID != "" {
		return short(i.ID)
	}
	return "of the instance"
}

// rootDevice chooses the disk. One that is not there yet is waited for, so that
// a slow controller does not send the image to another disk (K-05).
func (x *executor) rootDevice(ctx context.Context, hints map[string]any) (wire.Disk, string, error) {
	until := time.Now().Add(x.DiskWait)
	for said := false; ; said = true {
		disks, err := x.disks(ctx)
		if err != nil {
			return wire.Disk{}, "", err
		}
		root, why, err := disk.Select(disks, hints)
		if !errors.Is(err, disk.ErrNoRoot) || time.Now().After(until) {
			return root, why, err
		}
		if !said {
			x.con.say("%v; waiting %s for more disks", err, x.DiskWait)
		}
		if sleep(ctx, min(time.Second, x.DiskWait/4)) != nil {
			return wire.Disk{}, "", err
		}
	}
}

// imageWrite is one image, with its config drive, on its way to a disk.
type imageWrite struct {
	x     *executor
	job   *job
	info  wire.ImageInfo
	sum   image.Checksum
	disk  hw.Disk
	root  wire.Disk
	drive []byte
}

func (w *imageWrite) run(ctx context.Context) (string, error) {
	res, err := w.write(ctx)
	if err != nil {
		return "", err
	}
	t, err := disk.Settle(w.disk)
	if err != nil {
		return "", err
	}
	id := t.DiskID
	said := fmt.Sprintf("prepare_image: image (%s) written to device %s root_uuid=%s; %d bytes of %s%s in %.1f s",
		w.info.ID, w.root.Name, id, res.Size, res.Format, packedAs(res.Packing), res.Took.Seconds())
	if len(w.drive) == 0 {
		return said, nil
	}
	part, note, err := disk.WriteConfigDrive(w.disk, w.drive)
	if err != nil {
		return "", err
	}
	said += fmt.Sprintf("; config drive on partition %d", part.Number)
	if note != "" {
		said += "; note: " + note
		w.x.con.say("config drive: %s", note)
	}
	return said, nil
}

func packedAs(p image.Packing) string {
	if p == image.Plain {
		return ""
	}
	return " in ." + string(p)
}

// write tries the image's URLs in turn, since a mirror may be broken or old. No
// mirror has an image that fits a disk that is too small (K-18).
func (w *imageWrite) write(ctx context.Context) (image.Result, error) {
	var failed []error
	for _, u := range w.info.URLs {
		res, err := w.writeFrom(ctx, u)
		if err == nil {
			return res, nil
		}
		failed = append(failed, err)
		if errors.Is(err, image.ErrTooSmall) || errors.Is(err, syscall.ENOSPC) || ctx.Err() != nil {
			break
		}
	}
	return image.Result{}, errors.Join(failed...)
}

// writeFrom writes the image from one URL. A file that was replaced while it was
// fetched gets a second try; one that is the same still would only have
// the same wrong checksum, after another hour.
func (w *imageWrite) writeFrom(ctx context.Context, url string) (image.Result, error) {
	src, o := &source{client: w.x.client, policy: w.x.Policy, url: url, limits: w.x.limits(0)}, w.options(ctx)
	res, err := image.Write(ctx, src, w.disk, o)
	if errors.Is(err, fetch.ErrChanged) || errors.Is(err, image.ErrChecksum) && src.changed(ctx) {
		w.x.con.say("%v; the file at the server is another one now, trying once more", err)
		res, err = image.Write(ctx, src, w.disk, o)
	}
	return res, err
}

func (w *imageWrite) options(ctx context.Context) image.Options {
	o := image.Options{Checksum: w.sum, Claim: w.info.DiskFormat, Permitted: w.x.formats, Memory: w.x.Memory}
	if inv, err := w.x.machine.Inventory(ctx); err == nil && o.Memory == 0 {
		o.Memory = inv.Memory.Total / 8
	}
	o.Progress = func(p image.Progress) {
		w.job.progress(wire.Progress{What: p.What, Done: p.Done, Total: p.Total, Rate: p.Rate, ETA: p.ETA.Seconds()})
	}
	return o
}
