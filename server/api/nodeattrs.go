package api

import (
	"slices"
	"strings"

	"bessemer/store"
)

// An attribute is a field of an object that clients may set.
type attribute[T any] struct {
	name  string
	since version
	get   func(*T) any // what a patch is applied to
	set   func(v *T, value any) error
}

// patchable returns the attributes' present values, the document that a JSON
// patch is applied to.
func patchable[T any](attrs []attribute[T], v *T) map[string]any {
	doc := make(map[string]any, len(attrs))
	for _, a := range attrs {
		doc[a.name] = a.get(v)
	}
	return doc
}

// assign sets the attributes from a document; one that is not there is set to
// null. Every fault is found before the object counts as changed.
func assign[T any](attrs []attribute[T], v *T, doc map[string]any) error {
	for _, a := range attrs {
		if err := a.set(v, doc[a.name]); err != nil {
			return err
		}
	}
	return nil
}

// known refuses names that are no attributes, and those of later versions.
func known[T any](attrs []attribute[T], v version, names []string, act string) error {
	for _, n := range names {
		i := slices.IndexFunc(attrs, func(a attribute[T]) bool { return a.name == n })
		if i < 0 {
			return invalid("Cannot %s %s: it is not one of %s", act, shown("/"+n), strings.Join(attributeNames(attrs, v), ", "))
		}
		if attrs[i].since > v {
			return notAcceptable(n, attrs[i].since)
		}
	}
	return nil
}

func attributeNames[T any](attrs []attribute[T], v version) []string {
	var out []string
	for _, a := range attrs {
		if a.since <= v {
			out = append(out, a.name)
		}
	}
	return out
}

// text is an attribute that is a string of at most most bytes, or null.
func text[T any](name string, since version, most int, at func(*T) *string) attribute[T] {
	return attribute[T]{
		name, since,
		func(v *T) any { return orNull(*at(v)) },
		func(v *T, value any) error {
			s, err := parseText(name, most, value)
			*at(v) = s
			return err
		},
	}
}

func parseText(name string, most int, value any) (string, error) {
	if value == nil {
		return "", nil
	}
	s, ok := value.(string)
	if !ok {
		return "", invalid("Invalid value for %s: it must be a string or null", name)
	}
	if len(s) > most {
		return "", invalid("Invalid value for %s: it is longer than the %d bytes allowed", name, most)
	}
	if controlChars.MatchString(s) {
		return "", invalid("Invalid value for %s: it has control characters", name)
	}
	return s, nil
}

// uuidText is an attribute that is a UUID or null.
func uuidText[T any](name string, since version, at func(*T) *string) attribute[T] {
	a := text(name, since, 36, at)
	set := a.set
	a.set = func(v *T, value any) error {
		if err := set(v, value); err != nil {
			return err
		}
		if *at(v) == "" {
			if value != nil {
				return invalid("Expected UUID for %s: %s", name, shown(value))
			}
			return nil
		}
		s, err := parseUUID(name, *at(v))
		*at(v) = s
		return err
	}
	return a
}

// boolean is an attribute that is a boolean.
func boolean[T any](name string, since version, at func(*T) *bool) attribute[T] {
	return attribute[T]{
		name, since,
		func(v *T) any { return *at(v) },
		func(v *T, value any) (err error) {
			*at(v), err = parseBool(name, value)
			return err
		},
	}
}

// bag is an attribute that is an object, or null for an empty one.
func bag[T any](name string, since version, at func(*T) *map[string]any) attribute[T] {
	return attribute[T]{
		name, since,
		func(v *T) any { return orEmpty(*at(v)) },
		func(v *T, value any) error {
			m, ok := value.(map[string]any)
			if !ok && value != nil {
				return invalid("Invalid value for %s: it must be an object or null", name)
			}
			*at(v) = m
			return nil
		},
	}
}

// nodeAttrs are what clients may set on a node.
var nodeAttrs = makeNodeAttrs()

func makeNodeAttrs() []attribute[store.Node] {
	type N = store.Node
	as := []attribute[N]{
		{"automated_clean", 47, func(n *N) any { return n.AutomatedClean }, setAutomatedClean},
		uuidText("chassis_uuid", 1, func(n *N) *string { return &n.ChassisUUID }),
		text("conductor_group", 46, 255, func(n *N) *string { return &n.ConductorGroup }),
		text("description", 51, 4096, func(n *N) *string { return &n.Description }),
		{"driver", 1, func(n *N) any { return n.Driver }, setDriver},
		bag("driver_info", 1, func(n *N) *map[string]any { return &n.DriverInfo }),
		bag("extra", 1, func(n *N) *map[string]any { return &n.Extra }),
		bag("instance_info", 1, func(n *N) *map[string]any { return &n.InstanceInfo }),
		uuidText("instance_uuid", 1, func(n *N) *string { return &n.InstanceUUID }),
		text("lessee", 65, 255, func(n *N) *string { return &n.Lessee }),
		boolean("maintenance", 1, func(n *N) *bool { return &n.Maintenance }),
		text("name", 5, 255, func(n *N) *string { return &n.Name }),
		bag("network_data", 66, func(n *N) *map[string]any { return &n.NetworkData }),
		text("owner", 50, 255, func(n *N) *string { return &n.Owner }),
		bag("properties", 1, func(n *N) *map[string]any { return &n.Properties }),
		boolean("protected", 48, func(n *N) *bool { return &n.Protected }),
		text("protected_reason", 48, 4096, func(n *N) *string { return &n.ProtectedReason }),
		text("resource_class", 21, 80, func(n *N) *string { return &n.ResourceClass }),
		boolean("retired", 61, func(n *N) *bool { return &n.Retired }),
		text("retired_reason", 61, 4096, func(n *N) *string { return &n.RetiredReason }),
		text("shard", 82, 255, func(n *N) *string { return &n.Shard }),
	}
	for _, k := range interfaceKinds {
		as = append(as, interfaceAttr(k.kind, k.since))
	}
	return as
}

func interfaceAttr(kind string, since version) attribute[store.Node] {
	name := kind + "_interface"
	return attribute[store.Node]{
		name, since,
		func(n *store.Node) any { return orNull(n.Interfaces[kind]) },
		func(n *store.Node, value any) error {
			s, err := parseText(name, 64, value)
			if err != nil {
				return err
			}
			if n.Interfaces == nil {
				n.Interfaces = map[string]string{}
			}
			delete(n.Interfaces, kind)
			if s != "" {
				n.Interfaces[kind] = s
			}
			return nil
		},
	}
}

func setAutomatedClean(n *store.Node, value any) error {
	n.AutomatedClean = nil
	if value == nil {
		return nil
	}
	b, err := parseBool("automated_clean", value)
	n.AutomatedClean = &b
	return err
}

func setDriver(n *store.Node, value any) error {
	s, err := parseText("driver", 255, value)
	if err == nil && s == "" {
		err = invalid("driver is a mandatory attribute and can not be removed or empty")
	}
	n.Driver = s
	return err
}
