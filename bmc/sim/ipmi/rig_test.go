package ipmi_test

import (
	"flag"
	"net"
	"os"
	"testing"

	"bessemer/bmc"
	driver "bessemer/bmc/ipmi"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
	simipmi "bessemer/bmc/sim/ipmi"
)

// TestMain lets many tests run at once: they wait for packets, not for a
// processor.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const (
	testUser     = "root"
	testPassword = "canary-0815"
)

// A rig is a machine that is off, with its controller on a loopback port.
type rig struct {
	*sim.Controller
	machine *sim.Memory
	server  *simipmi.Server
	port    int
}

func newRig(t *testing.T, o simipmi.Options) *rig {
	t.Helper()
	m := sim.NewMemory(sim.Spec{
		Name: "node-1", UUID: "16b7275a-4a72-508c-9c00-000000001909", Manufacturer: "Dell Inc.", Model: "PowerEdge R640", Serial: "CZ1234",
		NICs: []sim.NIC{{MAC: "52:54:00:be:55:01"}},
	}, 0)
	r := &rig{Controller: sim.NewController(m, flaw.NewSet(1)), machine: m}
	if o.User == "" {
		o.User = testUser
	}
	if o.Password == "" {
		o.Password = testPassword
	}
	r.server = simipmi.New(r.Controller, o)
	r.port = serve(t, r.server)
	return r
}

// serve starts a server on a loopback port, until the test ends.
func serve(t *testing.T, s *simipmi.Server) int {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(conn) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return conn.LocalAddr().(*net.UDPAddr).Port
}

// open returns a driver for a port.
func open(t *testing.T, port int, changes ...any) bmc.Driver {
	t.Helper()
	info := map[string]any{
		"ipmi_address": "127.0.0.1", "ipmi_port": port, "ipmi_username": testUser, "ipmi_password": testPassword,
	}
	for i := 0; i < len(changes); i += 2 {
		info[changes[i].(string)] = changes[i+1]
	}
	d, err := driver.Type().Open(bmc.Target{DriverInfo: info})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func (r *rig) open(t *testing.T, changes ...any) bmc.Driver { return open(t, r.port, changes...) }
