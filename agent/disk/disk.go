// Package disk knows what lies on disks beside an image's own bytes: which
// disk is the root device, partition tables, the config drive, boot files, and
// what must go when a disk is wiped.
package disk

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"bessemer/agent/wire"
)

// gib is Ironic's unit of disk sizes.
const gib = 1 << 30

// minRoot is the smallest disk that is taken without being asked for by a hint.
const minRoot = 4 * gib

// ErrNoRoot is wrapped when no disk can be the root device.
var ErrNoRoot = errors.New("no disk can be the root device")

// Select chooses the root device by Ironic's root device hints: of the disks
// that match, or of those of 4 GiB and more when there are no hints, the
// smallest, and of equal ones the first by name (K-17). why tells the reason.
// Read-only, removable, empty and virtual media disks are never chosen. The
// error says of every disk why not; it wraps ErrNoRoot, or is about a hint that
// cannot be understood.
func Select(disks []wire.Disk, hints map[string]any) (d wire.Disk, why string, err error) {
	match, err := parseHints(hints)
	if err != nil {
		return d, "", err
	}
	var fit []wire.Disk
	var reasons []string
	for _, d := range disks {
		if reason := refusal(d, match); reason != "" {
			reasons = append(reasons, fmt.Sprintf("%s: %s", describe(d), reason))
		} else {
			fit = append(fit, d)
		}
	}
	if len(fit) == 0 {
		return d, "", noRoot(match, reasons)
	}
	best := slices.MinFunc(fit, func(a, b wire.Disk) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.Name, b.Name))
	})
	return best, reason(best, fit, match), nil
}

// refusal says why a disk is not the root device, or "".
func refusal(d wire.Disk, match []hint) string {
	if why := Unusable(d); why != "" {
		return why
	}
	for _, h := range match {
		if why := h.refuse(d); why != "" {
			return why
		}
	}
	if len(match) == 0 && d.Size < minRoot {
		return "smaller than 4 GiB, and no hint asks for it"
	}
	return ""
}

// Unusable says why a disk can never be a root device, or "" (V-14, K-10).
func Unusable(d wire.Disk) string {
	switch {
	case d.Size <= 0:
		return "has no medium or a size of 0"
	case d.ReadOnly:
		return "is read-only"
	case d.VirtualMedia:
		return "is virtual media of the management controller"
	case d.Removable:
		return "is removable"
	case isPseudo(d.Name):
		return "is not a physical disk"
	}
	return ""
}

func isPseudo(name string) bool {
	base := strings.TrimPrefix(name, "/dev/")
	for _, p := range []string{"zram", "ram", "loop", "fd", "sr"} {
		if rest, ok := strings.CutPrefix(base, p); ok && rest != "" && strings.Trim(rest, "0123456789") == "" {
			return true
		}
	}
	return false
}

func noRoot(match []hint, reasons []string) error {
	asked := "no hints are set"
	if len(match) > 0 {
		asked = "hints: " + hintText(match)
	}
	if len(reasons) == 0 {
		return fmt.Errorf("%w: the machine has no disks (%s)", ErrNoRoot, asked)
	}
	return fmt.Errorf("%w (%s); %s; name one in the node's properties/root_device", ErrNoRoot, asked, strings.Join(reasons, "; "))
}

func reason(best wire.Disk, fit []wire.Disk, match []hint) string {
	rule := "the smallest of at least 4 GiB"
	if len(match) > 0 {
		rule = "matches " + hintText(match)
	}
	switch {
	case len(fit) == 1 && len(match) == 0:
		return "the only disk of at least 4 GiB"
	case len(fit) == 1:
		return rule
	case fit[0].Size == fit[1].Size && best.Size == fit[0].Size:
		return fmt.Sprintf("%s; the first by name of %d", rule, len(fit))
	}
	return fmt.Sprintf("%s; the smallest of %d", rule, len(fit))
}

func describe(d wire.Disk) string {
	model := strings.TrimSpace(d.Vendor + " " + d.Model)
	if model == "" {
		model = "unknown model"
	}
	return fmt.Sprintf("%s (%s, %.1f GiB)", d.Name, model, math.Round(float64(d.Size)/gib*10)/10)
}
