package redfish

import (
	"net"
	"strings"
	"testing"

	"bessemer/bmc"
	"bessemer/bmc/bmctest"
)

func TestSuite(t *testing.T) {
	for _, quirk := range []string{"", "no sessions", "B-05", "B-06", "B-10", "R-02", "R-03", "R-04 body", "R-06"} {
		t.Run("quirk "+quirk, func(t *testing.T) {
			bmctest.Suite(t, func(t *testing.T) bmctest.Rig {
				b := newFakeBMC(t, quirk)
				return bmctest.Rig{
					Driver: b.open(t), Password: testPassword, Wire: true, OneMode: quirk == "B-05",
					WrongPassword: func() bmc.Driver { return b.open(t, "redfish_password", "wrong-0816") }, WrongSecret: "wrong-0816",
					Nothing: func() bmc.Driver { return b.open(t, "redfish_address", unused(t)) },
					Silent:  func() bmc.Driver { return b.open(t, "redfish_address", silent(t)) },
				}
			})
		})
	}
}

// unused returns an address where nothing listens.
func unused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// silent returns an address that takes connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestSystemID(t *testing.T) {
	for _, tt := range []struct{ quirk, id, fail string }{
		{"", "", ""},
		{"", "1", ""},
		{"", systemPath + "/", ""},
		{"", "/redfish/v1/Systems/9", "the controller lists " + systemPath},
		{"R-28", "", "set redfish_system_id to one of " + systemPath + ", /redfish/v1/Systems/2"},
		{"R-28", "1", ""},
	} {
		_, err := newFakeBMC(t, tt.quirk).open(t, "redfish_system_id", tt.id).PowerState(t.Context())
		if tt.fail == "" && err != nil || tt.fail != "" && (err == nil || !strings.Contains(err.Error(), tt.fail)) {
			t.Errorf("%s %q: got %v, want %q", tt.quirk, tt.id, err, tt.fail)
		}
	}
}

func TestIdentify(t *testing.T) {
	for _, tt := range []struct{ quirk, serial string }{{"", "4711"}, {"dell", "TAG1"}} {
		info, err := newFakeBMC(t, tt.quirk).open(t).Identify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.Serial != tt.serial || info.Firmware != "2.75" || info.SystemUUID != "16b7275a-4a72-508c-8000-000000000001" {
			t.Errorf("%s: got %+v, want serial %s", tt.quirk, info, tt.serial)
		}
		if got, want := strings.Join(info.MACs, " "), "52:54:00:aa:00:01 52:54:00:aa:00:03"; got != want {
			t.Errorf("got MACs %s, want %s", got, want)
		}
	}
}
