package api

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"bessemer/store"
)

// ports is what clients see of a port.
var ports = &resource[store.Port]{
	plural: "ports", noun: "Port", fieldsSince: 8,
	brief: []string{"uuid", "address", "links"},
	id:    func(p *store.Port) string { return p.UUID },
	born:  func(a, b *store.Port) int { return a.CreatedAt.Compare(b.CreatedAt) },

	fields: []field[store.Port]{
		portText("uuid", 1, func(p *store.Port) string { return p.UUID }),
		portTime("created_at", func(p *store.Port) time.Time { return p.CreatedAt }),
		portTime("updated_at", func(p *store.Port) time.Time { return p.UpdatedAt }),
		portText("address", 1, func(p *store.Port) string { return p.Address }),
		{"extra", 1, func(_ *call, p *store.Port) any { return orEmpty(p.Extra) }, nil},
		{"internal_info", 18, func(_ *call, p *store.Port) any { return orEmpty(maskBag(p.InternalInfo, nil)) }, nil},
		portFlag("is_smartnic", 53, func(p *store.Port) bool { return p.IsSmartNIC }),
		{"local_link_connection", 19, func(_ *call, p *store.Port) any { return orEmpty(p.LocalLinkConnection) }, nil},
		portText("physical_network", 34, func(p *store.Port) string { return p.PhysicalNetwork }),
		portFlag("pxe_enabled", 19, func(p *store.Port) bool { return p.PXEEnabled }),
		{"node_uuid", 1, func(_ *call, p *store.Port) any { return p.NodeUUID }, nil},
		{"links", 1, func(c *call, p *store.Port) any { return c.links("/ports/" + p.UUID) }, nil},
		{"portgroup_uuid", 24, func(_ *call, p *store.Port) any { return orNull(p.PortgroupUUID) }, nil},
	},
}

func portText(name string, since version, get func(*store.Port) string) field[store.Port] {
	return field[store.Port]{
		name, since, func(_ *call, p *store.Port) any { return orNull(get(p)) },
		func(a, b *store.Port) int { return cmp.Compare(get(a), get(b)) },
	}
}

func portTime(name string, get func(*store.Port) time.Time) field[store.Port] {
	return field[store.Port]{
		name, 1, func(_ *call, p *store.Port) any { return stamp(get(p)) },
		func(a, b *store.Port) int { return get(a).Compare(get(b)) },
	}
}

func portFlag(name string, since version, get func(*store.Port) bool) field[store.Port] {
	return field[store.Port]{
		name, since, func(_ *call, p *store.Port) any { return get(p) },
		func(a, b *store.Port) int { return compareBool(get(a), get(b)) },
	}
}

// portFilters are the filters of lists of ports.
var portFilters = []filter[store.Port]{
	{"address", 1, func(_ *call, s string) (func(*store.Port) bool, error) {
		mac, err := parseMAC("address", s)
		return func(p *store.Port) bool { return p.Address == mac }, err
	}},
	{"node_uuid", 1, portsOfNode},
	{"node", 1, portsOfNode},
	{"portgroup", 24, func(_ *call, s string) (func(*store.Port) bool, error) {
		return func(p *store.Port) bool { return p.PortgroupUUID == s }, nil
	}},
	{"shard", 82, portsOfShards},
}

func portsOfNode(c *call, ident string) (func(*store.Port) bool, error) {
	n, err := c.findNode(ident)
	if err != nil {
		return nil, err
	}
	return func(p *store.Port) bool { return p.NodeUUID == n.UUID }, nil
}

func portsOfShards(c *call, s string) (func(*store.Port) bool, error) {
	shards := splitList(s)
	in := map[string]bool{}
	all, err := c.api.nodes.list(c.api.db)
	if err != nil {
		return nil, err
	}
	for _, n := range all {
		for _, shard := range shards {
			in[n.UUID] = in[n.UUID] || n.Shard == shard
		}
	}
	return func(p *store.Port) bool { return in[p.NodeUUID] }, nil
}

// portAttrs are what clients may set on a port.
var portAttrs = []attribute[store.Port]{
	{"address", 1, func(p *store.Port) any { return p.Address }, setAddress},
	bag("extra", 1, func(p *store.Port) *map[string]any { return &p.Extra }),
	boolean("is_smartnic", 53, func(p *store.Port) *bool { return &p.IsSmartNIC }),
	bag("local_link_connection", 19, func(p *store.Port) *map[string]any { return &p.LocalLinkConnection }),
	uuidText("node_uuid", 1, func(p *store.Port) *string { return &p.NodeUUID }),
	text("physical_network", 34, 64, func(p *store.Port) *string { return &p.PhysicalNetwork }),
	uuidText("portgroup_uuid", 24, func(p *store.Port) *string { return &p.PortgroupUUID }),
	{"pxe_enabled", 19, func(p *store.Port) any { return p.PXEEnabled }, setPXEEnabled},
}

func setAddress(p *store.Port, value any) error {
	s, ok := value.(string)
	if !ok {
		return invalid("Invalid value for address: it must be a MAC address")
	}
	mac, err := parseMAC("address", s)
	p.Address = mac
	return err
}

// setPXEEnabled takes null for the default, which is true.
func setPXEEnabled(p *store.Port, value any) (err error) {
	p.PXEEnabled = true
	if value != nil {
		p.PXEEnabled, err = parseBool("pxe_enabled", value)
	}
	return err
}

// checkPort checks what the attributes alone do not tell.
func checkPort(p *store.Port, sent map[string]any) error {
	if s, ok := sent["physical_network"].(string); ok && s == "" {
		return invalid("A non-empty value is required when setting physical_network")
	}
	if p.PortgroupUUID != "" {
		return invalid("Portgroup %s could not be found.", p.PortgroupUUID)
	}
	return checkLocalLink(p)
}

var localLinkKeys = map[string]bool{"switch_id": true, "port_id": true, "switch_info": true, "hostname": true, "network_type": true}

func checkLocalLink(p *store.Port) error {
	l := p.LocalLinkConnection
	for k, v := range l {
		if s, ok := v.(string); !localLinkKeys[k] || !ok || len(s) > 255 || controlChars.MatchString(s) {
			return invalid("Invalid local_link_connection: %s is not one of its keys or has no text as value", shown(k))
		}
	}
	has := func(k string) bool { s, _ := l[k].(string); return s != "" }
	switch {
	case p.IsSmartNIC && !(has("port_id") && has("hostname")):
		return invalid("Smart NIC port must have port_id and hostname in local_link_connection")
	case len(l) == 0, p.IsSmartNIC:
		return nil
	case has("network_type"):
		if t := l["network_type"]; t != "managed" && t != "unmanaged" {
			return invalid("Invalid local_link_connection: network_type must be managed or unmanaged")
		}
		if l["network_type"] == "unmanaged" {
			return nil
		}
	case has("port_id") && has("hostname"):
		return nil
	}
	if !has("switch_id") || !has("port_id") {
		return invalid("Invalid local_link_connection: switch_id and port_id are required")
	}
	return nil
}

// putPort stores a port and says in Ironic's words which one has its address.
func putPort(tx *store.Tx, p *store.Port) error {
	err := store.Ports.Put(tx, p)
	if k, ok := errors.AsType[*store.KeyError](err); ok && errors.Is(err, store.ErrConflict) {
		return refuse(http.StatusConflict, "A port with MAC address %s already exists: %s.", k.Key, k.Holder)
	}
	return err
}
