package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"bessemer/bmc"
)

// targets are Redfish's names for our boot devices, the best first.
var targets = map[bmc.BootDevice][]string{
	bmc.PXE:       {"Pxe"},
	bmc.Disk:      {"Hdd"},
	bmc.CDROM:     {"Cd", "UsbCd"},
	bmc.BIOSSetup: {"BiosSetup"},
	bmc.UEFIHTTP:  {"UefiHttp"},
}

// order is the order in which BootDevices lists them.
var order = []bmc.BootDevice{bmc.PXE, bmc.Disk, bmc.CDROM, bmc.BIOSSetup, bmc.UEFIHTTP}

var modes = map[string]schemas.BootSourceOverrideMode{
	"uefi": schemas.UEFIBootSourceOverrideMode,
	"bios": schemas.LegacyBootSourceOverrideMode,
}

// BootDevices implements [bmc.Driver].
func (d *driver) BootDevices(ctx context.Context) ([]bmc.BootDevice, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.read(ctx)
	if err != nil {
		return nil, err
	}
	var ds []bmc.BootDevice
	for _, device := range order {
		if _, err := target(device, s.Boot.v, profile{}); err == nil {
			ds = append(ds, device)
		}
	}
	return ds, nil
}

// Boot implements [bmc.Driver]. A setting that was written to the settings
// resource is read there, until the machine takes it over (B-06).
func (d *driver) Boot(ctx context.Context) (bmc.Boot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.read(ctx)
	if err != nil {
		return bmc.Boot{}, err
	}
	if s, err = d.restoreOrder(ctx, s); err != nil {
		return bmc.Boot{}, err
	}
	b := s.Boot.v.boot()
	uri := d.bootURI
	if uri == "" { // perhaps written before we were started
		uri = s.Settings.v.SettingsObject.path()
	}
	if uri == "" || uri == d.system {
		return b, nil
	}
	var pending system
	if _, err := d.conn.get(ctx, uri, &pending); err != nil {
		if d.bootURI == "" && status(err) != 0 {
			return b, nil
		}
		return bmc.Boot{}, err
	}
	if p := pending.Boot.v.boot(); p.Device != "" {
		return p, nil
	}
	return b, nil
}

// boot translates an override.
func (o override) boot() bmc.Boot {
	var b bmc.Boot
	for mode, name := range modes {
		if string(o.Mode) == string(name) {
			b.Mode = mode
		}
	}
	if o.Enabled == nil || o.Target == nil || string(*o.Enabled) == string(schemas.DisabledBootSourceOverrideEnabled) {
		return b
	}
	if string(*o.Target) == uefiTarget && isNetworkPath(string(o.Path)) {
		b.Device = bmc.PXE
	}
	for device, names := range targets {
		if slices.Contains(names, string(*o.Target)) {
			b.Device = device
		}
	}
	b.Persistent = b.Device != "" && string(*o.Enabled) == string(schemas.ContinuousBootSourceOverrideEnabled)
	return b
}

// SetBoot implements [bmc.Driver]. A boot setting without a device clears the
// override.
func (d *driver) SetBoot(ctx context.Context, b bmc.Boot) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.recent(ctx)
	if err != nil {
		return err
	}
	p := profileOf(string(d.conn.root.Vendor), string(d.conn.root.Product), string(s.Manufacturer))
	uris, o, err := d.writable(ctx, s)
	if err != nil {
		return err
	}
	objects, err := overrides(b, o, p)
	if err != nil {
		return err
	}
	if named := d.byPath(ctx, b, o); named != nil {
		objects = append([]map[string]string{named}, objects...)
	}
	d.noteOrder(s, b, o)
	for _, object := range objects {
		err = d.write(ctx, uris, object)
		if s := status(err); s < 400 || s >= 500 || errors.Is(err, bmc.ErrCredentials) {
			break
		}
	}
	if s := status(err); s >= 400 && s < 500 { // it has done nothing
		d.order = bootOrder{}
	}
	return err
}

// writable returns the resources in which the override may be set, the
// likelier first, and the override as it is: the settings resource where it
// holds one, for the machine's own is then often read-only (B-06).
func (d *driver) writable(ctx context.Context, s *system) ([]string, override, error) {
	pending := s.Settings.v.SettingsObject.path()
	if pending == "" || pending == d.system {
		return []string{d.system}, s.Boot.v, nil
	}
	var ps system
	_, err := d.conn.get(ctx, pending, &ps)
	if err != nil && status(err) == 0 {
		return nil, override{}, err
	}
	if err != nil || ps.Boot.v.Target == nil {
		return []string{d.system, pending}, s.Boot.v, nil
	}
	o, now := ps.Boot.v, s.Boot.v
	if len(o.Targets.v) == 0 {
		o.Targets = now.Targets
	}
	if o.Mode == "" {
		o.Mode, o.hasMode = now.Mode, o.hasMode || now.hasMode
	}
	return []string{pending, d.system}, o, nil
}

// write patches the first of the resources that takes the override.
func (d *driver) write(ctx context.Context, uris []string, boot map[string]string) error {
	var first error
	for _, uri := range uris {
		err := d.conn.patch(ctx, uri, map[string]any{"Boot": boot}, d.tags(uri))
		if err == nil {
			d.bootURI = uri
			return nil
		}
		if first == nil {
			first = err
		}
		if s := status(err); s < 400 || s >= 500 || s == http.StatusUnauthorized {
			break
		}
	}
	return first
}

// tags returns those of the machine's resource as it was read just now, if it
// is the one to be written; they are used once.
func (d *driver) tags(uri string) *tags {
	last := d.last
	d.last = reading{}
	if uri != d.system || time.Since(last.at) >= fresh {
		return nil
	}
	return last.t
}

// overrides returns the Boot objects for a boot setting, in the order to try.
// All that belongs to an override is always sent: some controllers reset what
// is left out (B-02), or refuse the rest (B-03). Only a mode that the
// controller does not have is left out (B-05). One that refuses a lasting
// override gets one for the next boot (B-04), which the read-back then shows.
func overrides(b bmc.Boot, o override, p profile) ([]map[string]string, error) {
	if b.Device == "" {
		return clearing(o, p), nil
	}
	t, err := target(b.Device, o, p)
	if err != nil {
		return nil, err
	}
	mode := string(o.Mode)
	if b.Mode != "" {
		m, ok := modes[b.Mode]
		if !ok {
			return nil, fmt.Errorf("boot mode %q: %w: use uefi or bios", b.Mode, bmc.ErrUnsupported)
		}
		mode = string(m)
	}
	if !o.hasMode {
		mode = ""
	}
	once := []map[string]string{bootObject("Once", t, mode)}
	enabled := plain(o.EnabledValues.v)
	if !b.Persistent || len(enabled) > 0 && !slices.Contains(enabled, "Continuous") {
		return once, nil
	}
	return append([]map[string]string{bootObject("Continuous", t, mode)}, once...), nil
}

// clearing returns the Boot objects for no override. Some refuse the target
// None and want the old one kept (B-07).
func clearing(o override, p profile) []map[string]string {
	mode, old := "", "Pxe"
	if o.hasMode {
		mode = string(o.Mode)
	}
	if o.Target != nil && *o.Target != "" && *o.Target != "None" {
		old = string(*o.Target)
	}
	none, kept := bootObject("Disabled", "None", mode), bootObject("Disabled", old, mode)
	if p.clearKeepsPXE {
		return []map[string]string{kept, none}
	}
	return []map[string]string{none, kept}
}

func bootObject(enabled, target, mode string) map[string]string {
	m := map[string]string{"BootSourceOverrideEnabled": enabled, "BootSourceOverrideTarget": target}
	if mode != "" {
		m["BootSourceOverrideMode"] = mode
	}
	return m
}

// target chooses the controller's name for a boot device.
func target(device bmc.BootDevice, o override, p profile) (string, error) {
	names := slices.Clone(targets[device])
	if p.cdromByUSBFirst {
		slices.Reverse(names)
	}
	if len(names) == 0 {
		return "", fmt.Errorf("boot device %q: %w", device, bmc.ErrUnsupported)
	}
	allowed := plain(o.Targets.v)
	if len(allowed) == 0 { // it does not say
		return targets[device][0], nil
	}
	for _, n := range names {
		if slices.Contains(allowed, n) {
			return n, nil
		}
	}
	return "", fmt.Errorf("boot device %q: %w: it allows only %s", device, bmc.ErrUnsupported, strings.Join(allowed, ", "))
}
