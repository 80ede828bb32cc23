package sim_test

import (
	"flag"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/bmctest"
	"bessemer/bmc/redfish"
	"bessemer/bmc/sim"
)

// TestMain lets more tests run side by side than there are processors: they
// wait for machines most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// Our driver passes its suite against our service, however strict that is.
func TestRedfishDriver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		opts sim.RedfishOptions
	}{
		{"plain", sim.RedfishOptions{}},
		{"etags required", sim.RedfishOptions{RequireETag: true}},
		{"basic only", sim.RedfishOptions{NoSessions: true}},
		{"sessions only", sim.RedfishOptions{NoBasic: true}},
		{"one session", sim.RedfishOptions{MaxSessions: 1}},
		{"few reset types", sim.RedfishOptions{ResetTypes: []string{"On", "ForceOff", "GracefulShutdown", "PowerCycle"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.opts.User, tt.opts.Password = "admin", "right-4711"
			bmctest.Suite(t, func(t *testing.T) bmctest.Rig { return rig(t, tt.opts) })
		})
	}
}

func rig(t *testing.T, opts sim.RedfishOptions) bmctest.Rig {
	m := sim.NewMemory(sim.Spec{Name: "node-1", NICs: []sim.NIC{{MAC: "52:54:00:be:55:01"}}}, 20*time.Millisecond)
	cert, text, err := sim.SelfSigned(net.IPv4(127, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lis := listen(t)
	s := sim.Serve(lis, sim.NewRedfish(opts, m), cert)
	t.Cleanup(func() { _ = s.Close() })
	open := func(addr, password string) bmc.Driver {
		t.Helper()
		d, err := redfish.Type().Open(bmc.Target{Node: "n1", DriverInfo: map[string]any{
			"redfish_address": "https://" + addr, "redfish_username": opts.User, "redfish_password": password, "redfish_verify_ca": ca,
		}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	silent, unused := listen(t), listen(t)
	_ = unused.Close()
	return bmctest.Rig{
		Driver: open(lis.Addr().String(), opts.Password), Password: opts.Password, Wire: true,
		WrongPassword: func() bmc.Driver { return open(lis.Addr().String(), "wrong-0815") }, WrongSecret: "wrong-0815",
		Nothing: func() bmc.Driver { return open(unused.Addr().String(), opts.Password) },
		Silent:  func() bmc.Driver { return open(silent.Addr().String(), opts.Password) },
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	return lis
}
