package store

import "time"

// A Lease is an address given by our DHCP server.
type Lease struct {
	IP       string    `json:"ip"`
	MAC      string    `json:"mac"`                 // lower case, colons; "" for an address in quarantine
	ClientID string    `json:"client_id,omitempty"` // hex, where it is the key instead of the MAC
	Node     string    `json:"node,omitempty"`      // UUID when a port owns the MAC
	Hostname string    `json:"hostname,omitempty"`
	State    string    `json:"state"` // offered, bound, declined
	Since    time.Time `json:"since"`
	Expires  time.Time `json:"expires"`
}

// Leases is the table of leases, by address.
var Leases = NewTable("leases", func(l *Lease) string { return l.IP },
	Index("mac", func(l *Lease) []string { return some(l.MAC) }),
)

// A Discovered machine has asked us to boot but belongs to no node.
type Discovered struct {
	MAC         string    `json:"mac"`
	UUID        string    `json:"uuid,omitempty"` // SMBIOS, from option 97
	Arch        string    `json:"arch,omitempty"` // bios, x64-uefi, x64-http, arm64-uefi, ...
	VendorClass string    `json:"vendor_class,omitempty"`
	UserClass   string    `json:"user_class,omitempty"`
	IP          string    `json:"ip,omitempty"`
	LastSeen    time.Time `json:"last_seen"`
	FirstSeen   time.Time `json:"first_seen"`
	Count       int       `json:"count"`     // packets and boot requests seen
	LastWhat    string    `json:"last_what"` // "DHCP DISCOVER", "boot script", "lookup"
}

// DiscoveredMachines is the table of discovered machines, by MAC.
var DiscoveredMachines = NewTable("discovered", func(d *Discovered) string { return d.MAC })
