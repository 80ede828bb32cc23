package cli

import (
	"net/http"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"bessemer/server/client"
)

func deployFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "image", Usage: "name or UUID of a kept `IMAGE`, or a URL; default: what instance_info says"},
		&cli.StringFlag{Name: "checksum", Usage: "sha256 or sha512 `SUM` of the image file, or the URL of a file with it; needed when the image is a URL"},
		&cli.StringSliceFlag{Name: "root-device", Usage: "`HINT=VALUE` of the disk to write to, such as serial=, wwn=, size= or by_path=; several must all fit"},
		&cli.StringFlag{Name: "config-drive", Usage: "`FILE` with JSON (meta_data, user_data, network_data, vendor_data), or an image as base64 of gzip, or a URL"},
		&cli.StringFlag{Name: "hostname", Usage: "the instance's host `NAME`, for the config drive"},
		&cli.StringSliceFlag{Name: "ssh-key", Usage: "public key `FILE` for the config drive"},
		&cli.StringFlag{Name: "user-data", Usage: "user data `FILE` for the config drive"},
	}
}

// prepareDeploy sets the node's image and returns the config drive.
func prepareDeploy(c *cli.Context, cl *client.Client, node string) (map[string]any, func() error, error) {
	drive, err := configDrive(c)
	if err != nil {
		return nil, nil, err
	}
	set, drop, err := instanceInfo(c)
	if err != nil {
		return nil, nil, err
	}
	body := map[string]any{}
	if drive != nil {
		body["configdrive"] = drive
	}
	if len(set) == 0 {
		return body, nil, nil
	}
	var n struct {
		InstanceInfo map[string]any `json:"instance_info"`
	}
	if err := cl.Get(c.Context, nodePath(node), &n); err != nil {
		return nil, nil, err
	}
	ops, back := exchange(n.InstanceInfo, set, drop)
	if err := cl.Call(c.Context, http.MethodPatch, nodePath(node), ops, nil); err != nil {
		return nil, nil, err
	}
	return body, func() error { return cl.Call(c.Context, http.MethodPatch, nodePath(node), back, nil) }, nil
}

// instanceInfo is what the flags set of instance_info, and which keys are to
// go with that: the checksum of another image.
func instanceInfo(c *cli.Context) (set map[string]any, drop []string, err error) {
	set = map[string]any{}
	if v := c.String("image"); v != "" {
		set["image_source"] = v
		drop = []string{"image_checksum", "image_os_hash_algo", "image_os_hash_value"}
	}
	if v := c.String("checksum"); v != "" {
		set["image_checksum"] = v
	}
	if hints := c.StringSlice("root-device"); len(hints) > 0 {
		set["root_device"], err = keyValues("root-device", hints)
	}
	return set, drop, err
}

// exchange is the patch that sets and drops keys of instance_info, and the
// one that sets it back. A value that the appliance masks cannot be set back.
func exchange(old, set map[string]any, drop []string) (ops, back []map[string]any) {
	const path = "/instance_info/"
	restore := func(k string, v any) {
		if s, ok := v.(string); !ok || !strings.Contains(s, "******") {
			back = append(back, map[string]any{"op": "add", "path": path + k, "value": v})
		}
	}
	for _, k := range sortedKeys(set) {
		ops = append(ops, map[string]any{"op": "add", "path": path + k, "value": set[k]})
		if v, had := old[k]; had {
			restore(k, v)
		} else {
			back = append(back, map[string]any{"op": "remove", "path": path + k})
		}
	}
	for _, k := range slices.Sorted(slices.Values(drop)) {
		if v, had := old[k]; had && set[k] == nil {
			ops = append(ops, map[string]any{"op": "remove", "path": path + k})
			restore(k, v)
		}
	}
	return ops, back
}
