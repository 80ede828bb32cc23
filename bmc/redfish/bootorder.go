package redfish

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"bessemer/bmc"
)

const uefiTarget = "UefiTarget"

// byPath is the Boot object for the network in UEFI mode that names the
// network card by its path, for firmware that does not heed the plain one
// (B-16). Nil: no card is asked for, or the controller has no such thing.
func (d *driver) byPath(ctx context.Context, b bmc.Boot, o override) map[string]string {
	mode := b.Mode
	if mode == "" && string(o.Mode) == string(modes["uefi"]) {
		mode = "uefi"
	}
	if b.Card == "" || b.Device != bmc.PXE || b.Persistent || mode != "uefi" || !slices.Contains(plain(o.Targets.v), uefiTarget) {
		return nil
	}
	path := d.networkPath(ctx, o.Options.path(), b.Card)
	if path == "" {
		return nil
	}
	object := bootObject("Once", uefiTarget, "")
	if o.hasMode {
		object = bootObject("Once", uefiTarget, string(modes["uefi"]))
	}
	object["UefiTargetBootSourceOverride"] = path
	return object
}

// networkPath is the path of the firmware's entry that boots from a network
// card, by IPv4 if there is such a one. Entries that cannot be read do not
// count.
func (d *driver) networkPath(ctx context.Context, options, card string) (path string) {
	var c collection
	if options == "" || d.optional(ctx, options, &c) != nil {
		return ""
	}
	node := "MAC(" + strings.ToUpper(strings.ReplaceAll(card, ":", ""))
	for _, p := range c.paths(maxLinks) {
		var o bootOption
		if d.optional(ctx, p, &o) != nil {
			break
		}
		s := string(o.UefiDevicePath)
		switch u := strings.ToUpper(s); {
		case !strings.Contains(u, node):
		case strings.Contains(u, "IPV4("):
			return s
		case path == "":
			path = s
		}
	}
	return path
}

// isNetworkPath reports whether a device path is of a network card (UEFI
// specification 2.10, section 10.6.1.6).
func isNetworkPath(path string) bool { return strings.Contains(strings.ToUpper(path), "MAC(") }

// A bootOrder is the boot order before a boot device was set (B-17).
type bootOrder struct {
	ids []text
	at  time.Time
}

// orderFor is how long after the setting of a boot device an entry that is
// missing is taken for lost by that. Later somebody else may have removed it:
// an operating system, a person, the firmware.
const orderFor = 2 * time.Minute

func (o bootOrder) current() bool { return len(o.ids) > 0 && time.Since(o.at) < orderFor }

// noteOrder keeps the boot order that there is before b is set; what an
// earlier try has noted stays, since its answer may have been lost. A change
// of the boot mode changes the order rightly: each mode has its own entries.
func (d *driver) noteOrder(s *system, b bmc.Boot, o override) {
	switch {
	case b.Mode != "" && o.Mode != "" && string(o.Mode) != string(modes[b.Mode]):
		d.order = bootOrder{}
	case !d.order.current():
		d.order = bootOrder{s.Boot.v.Order.v, time.Now()}
	}
}

// restoreOrder puts back what a controller has taken out of the boot order as
// the boot device was set (B-17), and returns the machine as it is then.
func (d *driver) restoreOrder(ctx context.Context, s *system) (*system, error) {
	noted := d.order
	d.order = bootOrder{}
	if !noted.current() {
		return s, nil
	}
	before := noted.ids
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
