package conductor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"bessemer/agent/fetch"
	"bessemer/agent/wire"
	"bessemer/pxe"
	"bessemer/pxe/images"
	"bessemer/store"
)

// cacheImages finds the image and its checksum, so that the node is started
// only when there is something to write.
func cacheImages(ctx context.Context, t *Task) error {
	return t.carry(ctx, store.HTTPStore, store.LabelCacheImages, func() error {
		img, err := t.c.config.Images.Resolve(ctx, t.Node.InstanceInfo)
		if err != nil {
			return ofImage(err)
		}
		t.keep("hash_algo", img.HashAlgo)
		t.keep("hash_value", img.HashValue)
		t.keep("format", img.Format)
		t.keep("image_url", img.URL)
		t.keep("image", "")
		if img.Image != nil {
			t.keep("image", img.Image.UUID)
		}
		return nil
	})
}

// ofImage makes an error of an image final when only a client can mend it.
func ofImage(err error) error {
	for _, e := range []error{images.ErrInvalid, images.ErrFormat, fetch.ErrRefused, store.ErrNotFound, store.ErrCorrupt} {
		if errors.Is(err, e) {
			return final(err)
		}
	}
	return err
}

// imageInfo is what the agent is told of the image. Images and config drives
// that the appliance keeps are fetched under this boot's token.
func (t *Task) imageInfo() (wire.ImageInfo, error) {
	if t.Run.Ramdisk == nil {
		return wire.ImageInfo{}, final(fmt.Errorf("the boot's token has gone; start the deploy again"))
	}
	source, _ := t.Node.InstanceInfo["image_source"].(string)
	info := wire.ImageInfo{
		ID: source, DiskFormat: t.text("format"), ContainerFormat: "bare", StreamRawImages: true, NodeUUID: t.Node.UUID,
		OSHashAlgo: t.text("hash_algo"), OSHashValue: t.text("hash_value"), Checksum: t.text("hash_value"),
		URLs: []string{t.text("image_url")},
	}
	if t.text("image") != "" {
		info.URLs = []string{t.fileURL(pxe.FileImage)}
	}
	drive, err := t.c.configDrive(t.Node.UUID)
	if err != nil {
		return wire.ImageInfo{}, err
	}
	switch {
	case drive == nil:
	case drive.URL != "":
		info.ConfigDrive = drive.URL
	default:
		info.ConfigDrive = t.fileURL(pxe.FileDrive)
	}
	return info, nil
}

// fileURL is where the node gets a file of this boot.
func (t *Task) fileURL(name string) string {
	return pxe.FileURL(strings.TrimSuffix(t.c.config.BaseURL, "/"), t.Run.Ramdisk.Token, name)
}

func getDeploySteps(ctx context.Context, t *Task) error {
	res, err := t.ask(ctx, "deploy.get_deploy_steps", map[string]any{"node": t.agentNode(), "ports": t.agentPorts()})
	if err != nil {
		return err
	}
	if !offers(res, "deploy_steps", "write_image") {
		return final(fmt.Errorf("the agent offers no step write_image; its ramdisk does not fit this release"))
	}
	t.keep("hardware_manager_version", res["hardware_manager_version"])
	return nil
}

// writeImage hands the agent the image once and follows the writing.
func writeImage(ctx context.Context, t *Task) error {
	if t.text("sent") == "" {
		if err := t.admit(t.c.streams); err != nil {
			return err
		}
	}
	info, err := t.imageInfo()
	if err != nil {
		return err
	}
	args := map[string]any{"image_info": info}
	if info.ConfigDrive != "" {
		args["configdrive"] = info.ConfigDrive
	}
	_, err = t.carryOut(ctx, longCommand{
		name: "deploy.execute_deploy_step", short: "execute_deploy_step", what: "the image to be written",
		params: map[string]any{
			"step": map[string]any{"interface": "deploy", "step": "write_image", "args": args, "priority": 80},
			"node": t.agentNode(), "ports": t.agentPorts(), "deploy_version": t.Run.Data["hardware_manager_version"],
		},
		sent:     plainArrow(store.LabelContinueDeploy),
		polled:   pollArrow(store.LabelIsDeployDone, store.LabelDeployDone, "execute_deploy_step"),
		underWay: t.drawDownload,
	})
	return err
}

// drawDownload draws the arrow of the image's download where no server of ours
// sees it, once the agent has told of the first bytes.
func (t *Task) drawDownload(ctx context.Context) {
	if t.text("image") != "" || t.text("download") != "" {
		return
	}
	from := t.text("image_url")
	if u, err := url.Parse(from); err == nil {
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		from = u.String()
	}
	t.keep("download", "drawn")
	t.c.db.Record(ctx, store.Message{
		From: store.NodeP, To: store.HTTPStore, Kind: store.Cast, Label: store.LabelDownloadImage,
		Detail: map[string]any{"url": clip(from, 500), "told_by": "agent"},
	})
}

// installBootLoader has the agent make the disk bootable: a boot entry on
// UEFI, nothing on BIOS where the image brings its own loader.
func installBootLoader(ctx context.Context, t *Task) error {
	parts, err := t.partitions(ctx)
	if err != nil {
		return err
	}
	params := map[string]any{
		"root_uuid": parts["root uuid"], "efi_system_part_uuid": parts["efi system partition uuid"], "prep_boot_part_uuid": nil,
	}
	mode := cmp.Or(bootMode(t.Node), t.Node.BootMode)
	if mode != "" {
		params["target_boot_mode"] = mode
	}
	res, err := t.carryOut(ctx, longCommand{
		name: "image.install_bootloader", short: "install_bootloader", what: "the boot loader to be installed", params: params,
		sent: plainArrow(store.LabelInstallBootLoader), polled: plainArrow(store.LabelCommandStatus),
	})
	if err != nil {
		return err
	}
	t.keep("boot_entry", madeEntry(res, mode))
	return nil
}

// madeEntry reports whether the agent has made a boot entry. One that does not
// say, as Ironic-Python-Agent, makes one on UEFI or fails.
func madeEntry(res map[string]any, mode string) bool {
	if made, told := res["boot_entry"].(bool); told {
		return made
	}
	return mode == "uefi"
}

// partitions asks for the partitions of the written image, once.
func (t *Task) partitions(ctx context.Context) (map[string]any, error) {
	if known, ok := t.Run.Data["partitions"].(map[string]any); ok {
		return known, nil
	}
	parts, err := t.ask(ctx, "standby.get_partition_uuids", nil)
	if err != nil {
		return nil, err
	}
	t.keep("partitions", orEmpty(parts))
	return orEmpty(parts), nil
}

// syncDisks has the agent bring everything onto the disks before the power
// goes.
func syncDisks(ctx context.Context, t *Task) error {
	_, err := t.ask(ctx, "standby.sync", nil)
	return err
}

// offers reports whether one of the agent's hardware managers has a step.
func offers(res map[string]any, list, step string) bool {
	for _, s := range stepsOf(res, list) {
		if s.Step == step {
			return true
		}
	}
	return false
}

func plainArrow(label string) arrow {
	return arrow{label, func([]byte) (string, map[string]any) { return label, nil }}
}

// publicInstanceInfo is an instance_info without what it may hold that is
// secret, as Ironic masks it.
func publicInstanceInfo(n *store.Node) map[string]any {
	info := orEmpty(maps.Clone(n.InstanceInfo))
	for _, secret := range []string{"configdrive", "image_url", "rescue_password", "hashed_rescue_password", "image_auth_password"} {
		if _, ok := info[secret]; ok {
			info[secret] = "******"
		}
	}
	return info
}
