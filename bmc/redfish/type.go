// Package redfish is the hardware type redfish: machines whose controller
// speaks DMTF's Redfish over HTTP.
//
// A controller is not trusted. All requests go to the enrolled scheme, host
// and port and nowhere else, whatever links and redirects it sends; answers
// are bounded in size and time; its certificate is checked. Controllers are
// not alike either: what is read is decoded leniently and in small parts, and
// where they differ from the specification stands in one table (quirks.go).
package redfish

import (
	"bessemer/bmc"
)

// Type returns the hardware type.
func Type() bmc.Type {
	return bmc.Type{
		Open:       open,
		Properties: properties,
		Interfaces: map[string][]string{
			"bios":       {"no-bios"},
			"boot":       {"ipxe"},
			"console":    {"no-console"},
			"deploy":     {"direct"},
			"inspect":    {"no-inspect"},
			"management": {"redfish"},
			"network":    {"noop", "flat"},
			"power":      {"redfish"},
			"raid":       {"no-raid"},
			"rescue":     {"no-rescue"},
			"storage":    {"noop"},
			"vendor":     {"no-vendor"},
		},
	}
}

var properties = []bmc.Property{
	{Name: "redfish_address", Required: true, Help: "Address of the controller: a host name or IP address, with http:// or https:// (the default) before it and :port after it if need be."},
	{Name: "redfish_system_id", Help: "Path of the machine's ComputerSystem resource, for example /redfish/v1/Systems/1, or its identifier alone. Required only if the controller has more than one."},
	{Name: "redfish_username", Help: "User name to log in with."},
	{Name: "redfish_password", Secret: true, Help: "Password to log in with."},
	{Name: "redfish_verify_ca", Help: "Whether to check the controller's certificate: true (the default), false, or the path of a PEM file or directory with the certificates to trust, the controller's own among them if it is self-signed."},
	{Name: "redfish_auth_type", Help: "How to log in: session, basic, or auto (the default), which is session with basic as fallback."},
}

// open returns the driver for a target, without talking to it yet.
func open(t bmc.Target) (bmc.Driver, error) {
	s, err := readSettings(t)
	if err != nil {
		return nil, err
	}
	return newDriver(s), nil
}
