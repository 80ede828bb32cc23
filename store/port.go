package store

import "time"

// A Port is a network card of a node, by its MAC address.
type Port struct {
	UUID                string         `json:"uuid"`
	NodeUUID            string         `json:"node_uuid"`
	Address             string         `json:"address"` // lower case, colons
	Name                string         `json:"name,omitempty"`
	PXEEnabled          bool           `json:"pxe_enabled"`
	LocalLinkConnection map[string]any `json:"local_link_connection,omitempty"`
	PhysicalNetwork     string         `json:"physical_network,omitempty"`
	PortgroupUUID       string         `json:"portgroup_uuid,omitempty"`
	IsSmartNIC          bool           `json:"is_smartnic,omitempty"`
	Extra               map[string]any `json:"extra,omitempty"`
	InternalInfo        map[string]any `json:"internal_info,omitempty"` // tenant_vif_port_id and the like
	// Network is the network the port is bound to now: "provisioning",
	// "cleaning", "tenant" or "" for none.
	Network   string    `json:"network,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

// Ports is the table of ports, by UUID.
var Ports = NewTable("ports", func(p *Port) string { return p.UUID },
	Unique("address", func(p *Port) []string { return some(p.Address) }),
	Index("node_uuid", func(p *Port) []string { return some(p.NodeUUID) }),
).cached()
