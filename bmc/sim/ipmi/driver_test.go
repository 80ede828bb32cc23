package ipmi_test

import (
	"net"
	"testing"

	"bessemer/bmc"
	"bessemer/bmc/bmctest"
	simipmi "bessemer/bmc/sim/ipmi"
)

// Our driver passes its suite against our controller, whatever they speak.
func TestDriver(t *testing.T) {
	t.Parallel()
	kg := "000102030405060708090a0b0c0d0e0f10111213"
	key := make([]byte, 20)
	for i := range key {
		key[i] = byte(i)
	}
	for _, tt := range []struct {
		name    string
		o       simipmi.Options
		changes []any
	}{
		{"suite 17", simipmi.Options{}, nil},
		{"suite 3", simipmi.Options{NoLegacy: true}, []any{"ipmi_cipher_suite", "3"}},
		{"key of its own", simipmi.Options{KG: key}, []any{"ipmi_hex_kg_key", kg}},
		{"one session", simipmi.Options{Sessions: 1}, nil},
		{"1.5", simipmi.Options{}, []any{"ipmi_protocol_version", "1.5"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bmctest.Suite(t, func(t *testing.T) bmctest.Rig { return suiteRig(t, tt.o, tt.changes) })
		})
	}
}

func suiteRig(t *testing.T, o simipmi.Options, changes []any) bmctest.Rig {
	r := newRig(t, o)
	with := func(port int, more ...any) bmc.Driver { return open(t, port, append(more, changes...)...) }
	rig := bmctest.Rig{
		Driver: with(r.port), Password: testPassword, Wire: true, Lacks: []bmc.BootDevice{bmc.BIOSSetup, bmc.Safe},
		Nothing: func() bmc.Driver { return with(unused(t)) },
		Silent:  func() bmc.Driver { return with(silent(t)) },
	}
	if len(changes) == 0 || changes[0] != "ipmi_protocol_version" { // 1.5 has no answer to a wrong password: 20 s of waiting
		rig.WrongSecret = "wrong-0816"
		rig.WrongPassword = func() bmc.Driver { return with(r.port, "ipmi_password", rig.WrongSecret) }
	}
	return rig
}

// unused returns a port where nothing listens.
func unused(t *testing.T) int {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).Port
}

// silent returns a port that takes packets and never answers.
func silent(t *testing.T) int {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().(*net.UDPAddr).Port
}
