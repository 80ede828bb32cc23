package api

import (
	"cmp"
	"time"

	"bessemer/store"
)

// interfaceKinds are Ironic's aspects of a driver, with the version that
// brought each, and what a node has when its driver says nothing of it.
var interfaceKinds = []struct {
	kind  string
	since version
	none  string
}{
	{"bios", 40, "no-bios"},
	{"boot", 31, ""},
	{"console", 31, "no-console"},
	{"deploy", 31, ""},
	{"inspect", 31, "no-inspect"},
	{"management", 31, ""},
	{"network", 20, "noop"},
	{"power", 31, ""},
	{"raid", 31, "no-raid"},
	{"rescue", 38, "no-rescue"},
	{"storage", 33, "noop"},
	{"vendor", 31, "no-vendor"},
}

// nodes is what clients see of a node.
var nodes = &resource[store.Node]{
	plural: "nodes", noun: "Node", fieldsSince: 8,
	brief: []string{"uuid", "instance_uuid", "maintenance", "power_state", "provision_state", "name", "links"},
	id:    func(n *store.Node) string { return n.UUID },
	born:  func(a, b *store.Node) int { return a.CreatedAt.Compare(b.CreatedAt) },

	fields: nodeFields(),
}

type nodeField = field[store.Node]

// nodeText is a field that is a string or null, by which lists can be sorted.
func nodeText(name string, since version, get func(*store.Node) string) nodeField {
	return nodeField{
		name, since, func(_ *call, n *store.Node) any { return orNull(get(n)) },
		func(a, b *store.Node) int { return cmp.Compare(get(a), get(b)) },
	}
}

func nodeTime(name string, since version, get func(*store.Node) time.Time) nodeField {
	return nodeField{
		name, since, func(_ *call, n *store.Node) any { return stamp(get(n)) },
		func(a, b *store.Node) int { return get(a).Compare(get(b)) },
	}
}

func nodeFlag(name string, since version, get func(*store.Node) bool) nodeField {
	return nodeField{
		name, since, func(_ *call, n *store.Node) any { return get(n) },
		func(a, b *store.Node) int { return compareBool(get(a), get(b)) },
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func nodeAny(name string, since version, get func(*call, *store.Node) any) nodeField {
	return nodeField{name, since, get, nil}
}

// nodeBag is one of the objects that hold anything, its secrets masked.
func nodeBag(name string, since version, get func(*store.Node) map[string]any) nodeField {
	return nodeAny(name, since, func(c *call, n *store.Node) any { return orEmpty(c.mask(n, get(n))) })
}

func nodeLinks(name string, since version) nodeField {
	return nodeAny(name, since, func(c *call, n *store.Node) any { return c.links("/nodes/" + n.UUID + "/" + name) })
}

func nodeFields() []nodeField {
	type N = *store.Node
	fs := []nodeField{
		nodeText("uuid", 1, func(n N) string { return n.UUID }),
		nodeTime("created_at", 1, func(n N) time.Time { return n.CreatedAt }),
		nodeTime("updated_at", 1, func(n N) time.Time { return n.UpdatedAt }),
		nodeAny("automated_clean", 47, func(_ *call, n N) any { return n.AutomatedClean }),
		nodeText("boot_mode", 75, func(n N) string { return n.BootMode }),
		nodeAny("clean_step", 7, func(_ *call, n N) any { return stepOrEmpty(n.CleanStep) }),
		{
			"conductor_group", 46, func(_ *call, n N) any { return n.ConductorGroup },
			func(a, b N) int { return cmp.Compare(a.ConductorGroup, b.ConductorGroup) },
		},
		nodeFlag("console_enabled", 1, func(n N) bool { return n.ConsoleEnabled }),
		nodeAny("deploy_step", 44, func(_ *call, n N) any { return stepOrEmpty(n.DeployStep) }),
		nodeText("description", 51, func(n N) string { return n.Description }),
		nodeText("driver", 1, func(n N) string { return n.Driver }),
		nodeBag("driver_info", 1, func(n N) map[string]any { return n.DriverInfo }),
		nodeBag("driver_internal_info", 3, func(n N) map[string]any { return n.DriverInternalInfo }),
		nodeAny("extra", 1, func(_ *call, n N) any { return orEmpty(n.Extra) }),
		nodeText("fault", 42, func(n N) string { return n.Fault }),
		nodeTime("inspection_finished_at", 6, func(n N) time.Time { return n.InspectionFinishedAt }),
		nodeTime("inspection_started_at", 6, func(n N) time.Time { return n.InspectionStartedAt }),
		nodeBag("instance_info", 1, func(n N) map[string]any { return n.InstanceInfo }),
		nodeText("instance_uuid", 1, func(n N) string { return n.InstanceUUID }),
		nodeText("last_error", 1, func(n N) string { return maskURL(n.LastError) }),
		nodeText("lessee", 65, func(n N) string { return n.Lessee }),
		nodeFlag("maintenance", 1, func(n N) bool { return n.Maintenance }),
		nodeText("maintenance_reason", 1, func(n N) string { return n.MaintenanceReason }),
		nodeText("name", 5, func(n N) string { return n.Name }),
		nodeAny("network_data", 66, func(_ *call, n N) any { return orEmpty(n.NetworkData) }),
		nodeText("owner", 50, func(n N) string { return n.Owner }),
		nodeText("power_state", 1, func(n N) string { return string(n.PowerState) }),
		nodeAny("properties", 1, func(_ *call, n N) any { return orEmpty(n.Properties) }),
		nodeFlag("protected", 48, func(n N) bool { return n.Protected }),
		nodeText("protected_reason", 48, func(n N) string { return n.ProtectedReason }),
		{
			"provision_state", 1, func(c *call, n N) any { return orNull(shownState(n.ProvisionState, c.v)) },
			func(a, b N) int { return cmp.Compare(a.ProvisionState, b.ProvisionState) },
		},
		nodeTime("provision_updated_at", 1, func(n N) time.Time { return n.ProvisionUpdatedAt }),
		nodeAny("raid_config", 12, func(_ *call, n N) any { return orEmpty(n.RAIDConfig) }),
		nodeText("reservation", 1, reservation),
		nodeText("resource_class", 21, func(n N) string { return n.ResourceClass }),
		nodeFlag("retired", 61, func(n N) bool { return n.Retired }),
		nodeText("retired_reason", 61, func(n N) string { return n.RetiredReason }),
		nodeAny("secure_boot", 75, func(_ *call, n N) any { return n.SecureBoot }),
		nodeText("shard", 82, func(n N) string { return n.Shard }),
		nodeText("target_power_state", 1, func(n N) string { return string(n.TargetPowerState) }),
		{
			"target_provision_state", 1, func(c *call, n N) any { return orNull(shownState(n.TargetProvisionState, c.v)) },
			func(a, b N) int { return cmp.Compare(a.TargetProvisionState, b.TargetProvisionState) },
		},
		nodeAny("target_raid_config", 12, func(_ *call, n N) any { return orEmpty(n.TargetRAIDConfig) }),
		nodeAny("traits", 37, func(_ *call, n N) any { return orNone(n.Traits) }),
		nodeAny("conductor", 49, func(c *call, _ N) any { return orNull(c.api.conductor.Hostname()) }),
		nodeText("allocation_uuid", 52, func(n N) string { return n.AllocationUUID }),
		nodeText("chassis_uuid", 1, func(n N) string { return n.ChassisUUID }),
		nodeAny("links", 1, func(c *call, n N) any { return c.links("/nodes/" + n.UUID) }),
		nodeLinks("ports", 1),
		nodeLinks("states", 14),
		nodeLinks("portgroups", 24),
		nodeLinks("volume", 32),
	}
	for _, k := range interfaceKinds {
		fs = append(fs, nodeField{
			k.kind + "_interface", k.since,
			func(c *call, n N) any { return orNull(c.api.interfaceOf(n, k.kind)) },
			func(a, b N) int { return cmp.Compare(a.Interfaces[k.kind], b.Interfaces[k.kind]) },
		})
	}
	return fs
}

func orNone(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func stepOrEmpty(s *store.IronicStep) any {
	if s == nil {
		return struct{}{}
	}
	return s
}

func reservation(n *store.Node) string {
	if !held(n) {
		return ""
	}
	return n.Reservation.Holder
}

// shownState is a provision state as clients of a version know it: what is
// available was null below 1.2, and inspect wait was inspecting below 1.39.
func shownState(s store.ProvisionState, v version) store.ProvisionState {
	switch {
	case s == store.Available && v < 2:
		return ""
	case s == store.InspectWait && v < 39:
		return store.Inspecting
	}
	return s
}

// interfaceOf is the implementation of an aspect that a node has: its own, or
// its driver's default.
func (a *API) interfaceOf(n *store.Node, kind string) string {
	if name := n.Interfaces[kind]; name != "" {
		return name
	}
	if names := a.conductor.Types()[n.Driver].Interfaces[kind]; len(names) > 0 {
		return names[0]
	}
	for _, k := range interfaceKinds {
		if k.kind == kind {
			return k.none
		}
	}
	return ""
}
