package ipmi

import (
	"strings"
	"testing"

	"bessemer/bmc"
)

func TestDriverInfo(t *testing.T) {
	kind := Type()
	_, err := kind.Open(bmc.Target{DriverInfo: map[string]any{
		"ipmi_address": "10.0.0.1:623", "ipmi_port": "0", "ipmi_username": strings.Repeat("u", 17),
		"ipmi_password": strings.Repeat("p", 21), "ipmi_priv_level": "ROOT", "ipmi_cipher_suite": 0.0,
		"ipmi_protocol_version": "3", "ipmi_hex_kg_key": "xyz", "ipmi_force_boot_device": "perhaps", "ipmi_bridging": "dual",
	}})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, key := range []string{
		"ipmi_address", "ipmi_port", "ipmi_username", "ipmi_password", "ipmi_priv_level", "ipmi_cipher_suite",
		"ipmi_protocol_version", "ipmi_hex_kg_key", "ipmi_force_boot_device", "ipmi_bridging",
	} {
		if !strings.Contains(err.Error(), key+": ") {
			t.Errorf("no fault of %s in %v", key, err)
		}
	}
	if strings.Contains(err.Error(), "pppp") {
		t.Errorf("the password is in %v", err)
	}
	for _, p := range kind.Properties {
		if p.Help == "" {
			t.Errorf("%s has no help", p.Name)
		}
	}
}

func TestPasswords(t *testing.T) {
	for _, tt := range []struct {
		version  string
		password any
		ok       bool
	}{
		{"2.0", float64(123456), true}, // I-07
		{"2.0", "123456", true},
		{"2.0", strings.Repeat("x", 20), true},
		{"2.0", strings.Repeat("x", 21), false},
		{"1.5", strings.Repeat("x", 16), true},
		{"1.5", strings.Repeat("x", 17), false},
		{"2.0", " $\"'\\ ", true},
	} {
		_, err := readSettings(bmc.Target{DriverInfo: map[string]any{
			"ipmi_address": "bmc", "ipmi_password": tt.password, "ipmi_protocol_version": tt.version,
		}})
		if (err == nil) != tt.ok {
			t.Errorf("%v with %s: got %v, want ok: %v", tt.password, tt.version, err, tt.ok)
		}
	}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"BMC.example": "bmc.example:623", "10.0.0.1": "10.0.0.1:623", "2001:db8::1": "[2001:db8::1]:623", "[2001:db8::1]": "[2001:db8::1]:623",
	} {
		s, err := readSettings(bmc.Target{DriverInfo: map[string]any{"ipmi_address": in}})
		if err != nil || s.address() != want {
			t.Errorf("%s: got %s, %v, want %s", in, s.address(), err, want)
		}
	}
}
