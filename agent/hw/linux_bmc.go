//go:build linux

package hw

// bmcAddresses asks the machine's own BMC for its addresses.
func (m *Linux) bmcAddresses() (v4, v6 string) { return "", "" }
