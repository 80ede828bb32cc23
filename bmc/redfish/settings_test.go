package redfish

import (
	"strings"
	"testing"

	"bessemer/bmc"
)

func TestDriverInfo(t *testing.T) {
	kind := Type()
	_, err := kind.Open(bmc.Target{DriverInfo: map[string]any{
		"redfish_address": "https://u:p@h/", "redfish_verify_ca": "maybe", "redfish_auth_type": "kerberos",
		"redfish_system_id": "http://x/1", "redfish_password": testPassword,
	}})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, key := range []string{"redfish_address", "redfish_verify_ca", "redfish_auth_type", "redfish_system_id", "redfish_username"} {
		if !strings.Contains(err.Error(), key+": ") {
			t.Errorf("no fault of %s in %v", key, err)
		}
	}
	if strings.Contains(err.Error(), testPassword) {
		t.Errorf("the password is in %v", err)
	}
	for _, p := range kind.Properties {
		if p.Help == "" {
			t.Errorf("%s has no help", p.Name)
		}
	}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.5":                         "https://10.0.0.5:443",
		"HTTP://BMC.example:8080/":         "http://bmc.example:8080",
		"https://bmc/redfish/v1/":          "https://bmc:443",
		"2001:db8::1":                      "https://[2001:db8::1]:443",
		"https://[2001:db8::1]:8443":       "https://[2001:db8::1]:8443",
		"https://[fe80::1%25eth0]/":        "https://[fe80::1%25eth0]:443",
		"ftp://bmc":                        "",
		"https://bmc/other":                "",
		"https://":                         "",
		"https://bmc?x=y":                  "",
		"https://user:pw@bmc":              "",
		"https://bmc#f":                    "",
		"10.0.0.5@169.254.169.254":         "",
		"https://bmc:99999999999999999999": "https://bmc:99999999999999999999", // fails to dial
	} {
		f := bmc.Target{DriverInfo: map[string]any{"redfish_address": in}}.Fields()
		got := ""
		if u := readAddress(f); u != nil {
			got = u.String()
		}
		if got != want || (want == "") != (f.Err() != nil) {
			t.Errorf("%s: got %q, %v, want %q", in, got, f.Err(), want)
		}
	}
}
