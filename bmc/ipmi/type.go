// Package ipmi is the hardware type ipmi: machines whose controller speaks
// IPMI over LAN, 2.0 (RMCP+) or, if asked, 1.5.
//
// Key derivation and the messages of session setup are those of
// bougou/go-ipmi; the session itself is ours. Its client takes packets that
// are neither signed nor encrypted for answers within a session, decodes them
// in goroutines of its own, where a malformed one ends the process, and keeps
// each session alive for ever. Ours takes only packets that bear the
// session's signature, retransmits, obeys the context, and closes sessions,
// as small controllers have room for few. IPMI 1.5 is vmware/goipmi's lan
// transport, behind a guard (legacy.go).
package ipmi

import "bessemer/bmc"

// Type returns the hardware type.
func Type() bmc.Type {
	return bmc.Type{
		Open: func(t bmc.Target) (bmc.Driver, error) {
			s, err := readSettings(t)
			if err != nil {
				return nil, err
			}
			return newDriver(s), nil
		},
		Properties: properties,
		Interfaces: map[string][]string{
			"bios":       {"no-bios"},
			"boot":       {"ipxe"},
			"console":    {"no-console"},
			"deploy":     {"direct"},
			"inspect":    {"no-inspect"},
			"management": {"ipmitool"}, // Ironic's name for IPMI by whatever means
			"network":    {"noop", "flat"},
			"power":      {"ipmitool"},
			"raid":       {"no-raid"},
			"rescue":     {"no-rescue"},
			"storage":    {"noop"},
			"vendor":     {"no-vendor"},
		},
	}
}

var properties = []bmc.Property{
	{Name: "ipmi_address", Required: true, Help: "Host name or IP address of the controller."},
	{Name: "ipmi_port", Help: "UDP port of the controller; 623 by default."},
	{Name: "ipmi_username", Help: "User name, at most 16 bytes; the anonymous user by default."},
	{Name: "ipmi_password", Secret: true, Help: "Password, at most 20 bytes, with IPMI 1.5 at most 16."},
	{Name: "ipmi_priv_level", Help: "Privilege to ask for: ADMINISTRATOR, OPERATOR, USER or CALLBACK. By default ADMINISTRATOR, and OPERATOR where the user has no more."},
	{Name: "ipmi_cipher_suite", Help: "Cipher suite of IPMI 2.0: 17 or 3. By default 17 is tried first, then 3; weaker ones are never used."},
	{Name: "ipmi_protocol_version", Help: "2.0 (the default) or 1.5, which neither encrypts nor checks what the controller answers."},
	{Name: "ipmi_hex_kg_key", Secret: true, Help: "Key of the controller (Kg) for IPMI 2.0, as 40 hexadecimal digits."},
	{Name: "ipmi_force_boot_device", Help: "Whether to set a lasting boot device again at each power-on, for controllers that forget it; false by default."},
	{Name: "ipmi_disable_boot_timeout", Help: "Whether to tell the controller not to drop the boot device after 60 seconds; true by default. A controller that refuses to start the machine then is told otherwise, and the device is set again before a late start."},
	{Name: "ipmi_min_command_interval", Help: "Least number of seconds between two commands, for controllers that fail otherwise; 0 by default, and what is found to be needed."},
}
