package conductor

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bessemer/store"
)

// bootMode returns the boot mode that a node is to have: "uefi", "bios", or
// "" where nobody has said. The instance's wish comes before the node's.
func bootMode(n *store.Node) string {
	for _, bag := range []map[string]any{n.InstanceInfo, n.Properties} {
		caps, err := capabilities(bag["capabilities"])
		if err == nil && caps["boot_mode"] != "" {
			return caps["boot_mode"]
		}
	}
	return ""
}

// capabilities reads Ironic's two notations: "boot_mode:uefi,disk_label:gpt",
// and an object, which may come as JSON text.
func capabilities(v any) (map[string]string, error) {
	caps := map[string]string{}
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for k, x := range v {
			caps[k] = fmt.Sprint(x)
		}
	case string:
		var obj map[string]any
		if strings.HasPrefix(strings.TrimSpace(v), "{") {
			if err := json.Unmarshal([]byte(v), &obj); err != nil {
				return nil, fmt.Errorf("capabilities: not JSON: %w", err)
			}
			return capabilities(obj)
		}
		for pair := range strings.SplitSeq(v, ",") {
			if strings.TrimSpace(pair) == "" {
				continue
			}
			k, val, ok := strings.Cut(pair, ":")
			if !ok {
				return nil, fmt.Errorf("capabilities: %q is not key:value", clip(pair, 100))
			}
			caps[strings.TrimSpace(k)] = strings.TrimSpace(val)
		}
	default:
		return nil, fmt.Errorf("capabilities: a %T is neither text nor an object", v)
	}
	return caps, nil
}

func checkCapabilities(n *store.Node) error {
	var faults []error
	for name, bag := range map[string]map[string]any{"properties": n.Properties, "instance_info": n.InstanceInfo} {
		caps, err := capabilities(bag["capabilities"])
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		} else if m, ok := caps["boot_mode"]; ok && m != "uefi" && m != "bios" {
			faults = append(faults, fmt.Errorf("%s: capabilities: boot_mode is %q, not uefi or bios", name, clip(m, 50)))
		}
	}
	return errors.Join(faults...)
}

var (
	hintNames = []string{
		"model", "vendor", "serial", "size", "wwn", "wwn_with_extension", "wwn_vendor_extension", "rotational", "name", "hctl", "by_path",
	}
	// operators are those of Ironic's hints, which follow oslo's spec matcher.
	sizeHint = regexp.MustCompile(`^(?:(=|==|!=|>=|<=|>|<)\s*)?(\d+)$`)
)

// checkRootDevice reports every fault of a node's root device hints.
func checkRootDevice(n *store.Node) error {
	var faults []error
	for name, bag := range map[string]map[string]any{"properties": n.Properties, "instance_info": n.InstanceInfo} {
		v, ok := bag["root_device"]
		if !ok || v == nil {
			continue
		}
		hints, ok := v.(map[string]any)
		if !ok {
			faults = append(faults, fmt.Errorf("%s: root_device must be an object", name))
			continue
		}
		for key, value := range hints {
			if err := checkHint(key, value); err != nil {
				faults = append(faults, fmt.Errorf("%s: root_device: %w", name, err))
			}
		}
	}
	return errors.Join(faults...)
}

func checkHint(key string, value any) error {
	switch {
	case !slices.Contains(hintNames, key):
		return fmt.Errorf("unknown hint %q; the hints are %s", clip(key, 50), strings.Join(hintNames, ", "))
	case key == "rotational":
		switch v := value.(type) {
		case bool:
			return nil
		case string:
			if _, err := strconv.ParseBool(strings.ToLower(v)); err == nil {
				return nil
			}
		}
		return errors.New("rotational must be true or false")
	case key == "size":
		return checkSizeHint(value)
	}
	if s, ok := value.(string); !ok || strings.TrimSpace(s) == "" {
		return fmt.Errorf("%s must be a text that is not empty", key)
	}
	return nil
}

// checkSizeHint accepts GiB as a number, as text, with a comparison before
// it, or several of these joined by <or>.
func checkSizeHint(value any) error {
	switch v := value.(type) {
	case float64:
		if v > 0 && v == float64(int64(v)) {
			return nil
		}
	case string:
		for part := range strings.SplitSeq(strings.TrimPrefix(strings.TrimSpace(v), "<or>"), "<or>") {
			if !sizeHint.MatchString(strings.TrimSpace(part)) {
				return fmt.Errorf("size %q is not a whole number of GiB, with or without a comparison before it", clip(v, 50))
			}
		}
		return nil
	}
	return errors.New("size must be a whole number of GiB")
}
