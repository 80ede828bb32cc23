package conductor

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"bessemer/store"
)

// maxDrive bounds a config drive, unpacked: the partition for it has 64 MiB.
const maxDrive = 64 << 20

// A driveSource is what a config drive is to be made of. It is checked when
// it is asked for, and made by the run's step.
type driveSource struct {
	URL   string // where the agent shall get it
	Image []byte // gzip of a file system image
	JSON  []byte // meta_data, user_data, network_data, vendor_data
}

// newDrive checks the config drive of a request, or of the node's
// instance_info; nil when there is none.
func (c *Conductor) newDrive(n *store.Node, r ProvisionRequest, verb string) (*driveSource, error) {
	given := r.ConfigDrive
	if given == nil && verb == "deploy" {
		given = n.InstanceInfo["configdrive"]
	}
	switch v := given.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return jsonDrive(v)
	case string:
		switch {
		case v == "":
			return nil, nil
		case strings.HasPrefix(v, "http://"), strings.HasPrefix(v, "https://"):
			_, err := c.config.Policy.Check(v)
			return &driveSource{URL: v}, err
		}
		image, err := imageDrive(v)
		return &driveSource{Image: image}, err
	}
	return nil, fmt.Errorf("must be a URL, the base64 of the gzip of an image, or an object; is a %T", given)
}

// jsonDrive checks what a config drive is to be made of.
func jsonDrive(v map[string]any) (*driveSource, error) {
	for key := range v {
		switch key {
		case "meta_data", "network_data", "vendor_data":
			if _, ok := v[key].(map[string]any); !ok && v[key] != nil {
				return nil, fmt.Errorf("%s must be an object, is a %T", key, v[key])
			}
		case "user_data":
			switch v[key].(type) {
			case nil, string, map[string]any:
			default:
				return nil, fmt.Errorf("user_data must be text or an object, is a %T", v[key])
			}
		default:
			return nil, fmt.Errorf("unknown key %q; the keys are meta_data, user_data, network_data, vendor_data", clip(key, 50))
		}
	}
	text, err := json.Marshal(v)
	if err == nil && len(text) > maxDrive/4 {
		err = fmt.Errorf("has %d bytes, more than %d MiB", len(text), maxDrive/4>>20)
	}
	return &driveSource{JSON: text}, err
}

// imageDrive checks a ready-made config drive: base64, gzip, and a file system
// that systems look for.
func imageDrive(text string) ([]byte, error) {
	text = strings.Join(strings.Fields(text), "")
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		return nil, errors.New("is JSON in a string; give the object itself")
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("is neither a URL nor base64")
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, errors.New("is base64, but not of a gzip file")
	}
	image, err := io.ReadAll(io.LimitReader(z, maxDrive+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be unpacked: %w", err)
	case len(image) > maxDrive:
		return nil, fmt.Errorf("is larger than %d MiB when unpacked", maxDrive>>20)
	case !isFileSystem(image):
		return nil, errors.New("holds neither an ISO 9660 nor a FAT file system")
	}
	return packed, nil
}

// isFileSystem looks for ISO 9660's first volume descriptor or a FAT boot
// sector.
func isFileSystem(image []byte) bool {
	const descriptor = 16 * 2048
	if len(image) >= descriptor+2048 && string(image[descriptor+1:descriptor+6]) == "CD001" {
		return true
	}
	return len(image) >= 512 && image[510] == 0x55 && image[511] == 0xaa &&
		(bytes.HasPrefix(image[54:], []byte("FAT")) || bytes.HasPrefix(image[82:], []byte("FAT32")))
}

// saveDrive keeps what a node's config drive is to be made of, in the
// transaction that begins the run. A rebuild without one keeps the last.
func saveDrive(tx *store.Tx, node string, d *driveSource, verb string) error {
	if d != nil {
		return store.ConfigDrives.Put(tx, &store.ConfigDrive{Node: node, URL: d.URL, Content: d.Image, Source: d.JSON})
	}
	if verb == "rebuild" {
		return nil
	}
	if err := store.ConfigDrives.Delete(tx, node); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// configDrive reads a node's config drive; nil when it has none.
func (c *Conductor) configDrive(node string) (d *store.ConfigDrive, err error) {
	err = c.db.View(func(tx *store.Tx) error {
		d, err = store.ConfigDrives.Get(tx, node)
		if errors.Is(err, store.ErrNotFound) {
			d, err = nil, nil
		}
		return err
	})
	return d, err
}

// storeConfigDrive makes the config drive from its data.
func storeConfigDrive(ctx context.Context, t *Task) error {
	d, err := t.c.configDrive(t.Node.UUID)
	if err != nil || d == nil {
		return err
	}
	return t.carry(ctx, store.HTTPStore, store.LabelStoreConfigDrive, func() error {
		if len(d.Source) == 0 {
			return nil // made already, by its owner or before a restart
		}
		files, err := driveFiles(t.Node, d.Source)
		if err != nil {
			return final(err)
		}
		if d.Content, err = makeISO(t.c.temp(), files); err != nil {
			return err
		}
		d.Source = nil
		t.Write(func(tx *store.Tx) error { return store.ConfigDrives.Put(tx, d) })
		return nil
	})
}

// driveFiles returns the files of a config drive by path, as cloud-init looks
// for them.
func driveFiles(n *store.Node, source []byte) (map[string][]byte, error) {
	var data struct {
		MetaData    map[string]any `json:"meta_data"`
		UserData    any            `json:"user_data"`
		NetworkData map[string]any `json:"network_data"`
		VendorData  map[string]any `json:"vendor_data"`
	}
	if err := json.Unmarshal(source, &data); err != nil {
		return nil, fmt.Errorf("read config drive data: %w", err)
	}
	files := map[string][]byte{}
	add := func(name string, v any) error {
		text, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		for _, version := range driveVersions {
			files["openstack/"+version+"/"+name] = text
		}
		return nil
	}
	if err := add("meta_data.json", metaData(n, data.MetaData)); err != nil {
		return nil, err
	}
	for name, v := range map[string]map[string]any{"network_data.json": data.NetworkData, "vendor_data2.json": data.VendorData} {
		if v != nil {
			if err := add(name, v); err != nil {
				return nil, err
			}
		}
	}
	user, err := userData(data.UserData)
	if err == nil && user != nil {
		for _, version := range driveVersions {
			files["openstack/"+version+"/user_data"] = user
		}
	}
	return files, err
}

// driveVersions are the versions under which the files lie: the oldest, which
// every reader knows, and the newest by name.
var driveVersions = []string{"2012-08-10", "latest"}

// metaData fills in what every instance needs and the client has left out.
func metaData(n *store.Node, given map[string]any) map[string]any {
	meta := map[string]any{}
	name := n.InstanceName
	if name == "" {
		name = n.Name
	}
	meta["uuid"] = n.UUID
	if name != "" {
		meta["name"] = name
	}
	for k, v := range given {
		meta[k] = v
	}
	if _, ok := meta["hostname"]; !ok && meta["name"] != nil {
		meta["hostname"] = meta["name"]
	}
	return meta
}

func userData(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(v), nil
	}
	return json.Marshal(v)
}
