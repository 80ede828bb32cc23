package redfish

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bessemer/bmc"
)

const uefiTarget = "UefiTarget"

// byPath is the Boot object for the network in UEFI mode that names the
// network card by its path, for firmware that did not heed the plain one
// (B-16). Of several cards another one is named each time. Nil: the machine was not told
// before, or the controller has no such thing.
func (d *driver) byPath(ctx context.Context, b bmc.Boot, o override) map[string]string {
	mode := b.Mode
	if mode == "" && string(o.Mode) == string(modes["uefi"]) {
		mode = "uefi"
	}
	if !b.Again || b.Device != bmc.PXE || b.Persistent || mode != "uefi" || !slices.Contains(plain(o.Targets.v), uefiTarget) {
		return nil
	}
	paths := d.networkPaths(ctx, o.Options.path())
	if len(paths) == 0 {
		return nil
	}
	object := bootObject("Once", uefiTarget, "")
	if o.hasMode {
		object = bootObject("Once", uefiTarget, string(modes["uefi"]))
	}
	object["UefiTargetBootSourceOverride"] = paths[d.named%len(paths)]
	d.named++
	return object
}

// networkPaths lists the paths of the firmware's entries that boot from the
// network, by IPv4 where there are such. Options that cannot be read do not
// count.
func (d *driver) networkPaths(ctx context.Context, options string) []string {
	var c collection
	if options == "" || d.optional(ctx, options, &c) != nil {
		return nil
	}
	var all, v4 []string
	for _, p := range c.paths(maxLinks) {
		var o bootOption
		if d.optional(ctx, p, &o) != nil {
			break
		}
		path := string(o.UefiDevicePath)
		if !isNetworkPath(path) {
			continue
		}
		all = append(all, path)
		if strings.Contains(path, "IPv4(") {
			v4 = append(v4, path)
		}
	}
	if len(v4) > 0 {
		return v4
	}
	return all
}

// isNetworkPath reports whether a device path is of a network card (UEFI
// specification 2.10, section 10.6.1.6).
func isNetworkPath(path string) bool { return strings.Contains(path, "MAC(") }

// restoreOrder puts back what a controller has taken out of the boot order as
// the boot device was set (B-17), and returns the machine as it is then.
func (d *driver) restoreOrder(ctx context.Context, s *system) (*system, error) {
	before := d.order
	d.order = nil
	lost := missingFrom(s.Boot.v.Order.v, before)
	if len(lost) == 0 {
		return s, nil
	}
	uri := d.bootURI
	if uri == "" {
		uri = d.system
	}
	err := d.conn.patch(ctx, uri, map[string]any{"Boot": map[string]any{"BootOrder": before}}, nil)
	if err == nil {
		s, err = d.read(ctx)
	}
	if err == nil {
		if lost = missingFrom(s.Boot.v.Order.v, before); len(lost) == 0 {
			bmc.Note(ctx, "setting the boot device took entries out of the boot order; they were put back")
			return s, nil
		}
		err = fmt.Errorf("it accepts the old order and does not take it over")
	}
	return nil, fmt.Errorf("setting the boot device took %s out of the boot order, and putting it back fails; put it back in the firmware's setup: %w",
		strings.Join(lost, ", "), err)
}

func missingFrom(now, before []text) (lost []string) {
	for _, id := range before {
		if !slices.Contains(now, id) {
			lost = append(lost, string(id))
		}
	}
	return lost
}
