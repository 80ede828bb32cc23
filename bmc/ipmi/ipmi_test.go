package ipmi

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"
	"github.com/google/go-cmp/cmp"

	"bessemer/bmc"
	"bessemer/bmc/bmctest"
	"bessemer/store"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		o       options
		changes []any
	}{
		{"suite 17 or 3", options{}, nil},
		{"suite 17", options{suites: []types.CipherSuiteID{types.CipherSuiteID17}}, nil},
		{"suite 3", options{suites: []types.CipherSuiteID{types.CipherSuiteID3}, no15: true}, nil},
		{"suite 3 only", options{}, []any{"ipmi_cipher_suite", "3"}},
		{"Supermicro", options{maker: 10876}, nil},
		{"1.5", options{}, []any{"ipmi_protocol_version", "1.5"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bmctest.Suite(t, func(t *testing.T) bmctest.Rig {
				b := newFakeBMC(t, tt.o)
				with := func(port int, more ...any) *driver { return open(t, port, append(more, tt.changes...)...) }
				return bmctest.Rig{
					Driver: with(b.port), Password: testPassword, Wire: true,
					WrongPassword: func() bmc.Driver { return with(b.port, "ipmi_password", "wrong-0816") }, WrongSecret: "wrong-0816",
					Nothing: func() bmc.Driver { return with(unused(t)) },
					Silent:  func() bmc.Driver { return with(silent(t)) },
				}
			})
		})
	}
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

// A controller that has IPMI over LAN switched off looks like one that is not
// there; that is said however little time there was to wait for it (I-12).
func TestSilenceIsExplained(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := open(t, silent(t)).PowerState(ctx)
	if !errors.Is(err, bmc.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "use the driver redfish") {
		t.Errorf("got %v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := open(t, silent(t)).PowerState(gone); err == nil || errors.Is(err, bmc.ErrUnreachable) {
		t.Errorf("nobody waited: got %v", err)
	}
}

func TestBusyIsAskedAgain(t *testing.T) {
	n := 0
	s := &script{answer: func(command, []byte) ([]byte, byte) {
		if n++; n < 3 {
			return nil, codeBusy
		}
		return []byte{1}, 0
	}}
	if got, err := s.driver().PowerState(t.Context()); err != nil || got != store.PowerOn {
		t.Errorf("got %q, %v, want power on", got, err)
	}
}

func TestPowerActions(t *testing.T) {
	b := newFakeBMC(t, options{})
	d := open(t, b.port)
	for _, a := range []bmc.PowerAction{bmc.ForceOff, bmc.Reset, bmc.On, bmc.Reset, bmc.SoftOff, bmc.SoftOff} {
		if err := d.Power(t.Context(), a); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	if got, want := b.acted(types.CompletionCode(codeNotInState)), "up reset soft"; got != want {
		t.Errorf("got %s, want %s (I-04)", got, want)
	}
	if err := d.Power(t.Context(), bmc.On); code(err) != codeNotInState {
		t.Errorf("refused: got %v, want 0xd5", err)
	}
	if err := d.Power(t.Context(), "dance"); !errors.Is(err, bmc.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

func TestIdentify(t *testing.T) {
	b := newFakeBMC(t, options{maker: 674})
	if info, err := open(t, b.port).Identify(t.Context()); err != nil || info.Vendor != "Dell" {
		t.Errorf("got %+v, %v, want Dell, and no error though the controller knows no GUID", info, err)
	}
	s := &script{answer: func(cmd command, _ []byte) ([]byte, byte) {
		if cmd.id == cmdGUID.id {
			return []byte{0x5a, 0x27, 0xb7, 0x16, 0x72, 0x4a, 0x8c, 0x50, 0x9c, 0, 0, 0, 0, 0, 0x19, 9}, 0
		}
		return []byte{0x20, 1, 0x82, 0x45, 0x20, 0, 0x7c, 0x2a, 0, 0x01, 0x09}, 0
	}}
	want := bmc.Info{Vendor: "Supermicro", Model: "product 0x0901", Firmware: "2.45", SystemUUID: "16b7275a-4a72-508c-9c00-000000001909"}
	got, err := s.driver().Identify(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("got error %v and a difference:\n%s", err, diff)
	}
}

func TestGUIDText(t *testing.T) {
	rfc := []byte{0x16, 0xb7, 0x27, 0x5a, 0x4a, 0x72, 0x50, 0x8c, 0x9c, 0, 0, 0, 0, 0, 0x19, 9}
	smbios := []byte{0x5a, 0x27, 0xb7, 0x16, 0x72, 0x4a, 0x8c, 0x50, 0x9c, 0, 0, 0, 0, 0, 0x19, 9}
	var reversed []byte
	for i := range rfc {
		reversed = append(reversed, rfc[15-i])
	}
	const want = "16b7275a-4a72-508c-9c00-000000001909"
	for name, b := range map[string][]byte{"RFC": rfc, "SMBIOS": smbios, "reversed": reversed} {
		if got := guidText(b); got != want {
			t.Errorf("%s: got %q, want %s", name, got, want)
		}
	}
	ambiguous := []byte{1, 2, 3, 4, 5, 6, 0x41, 0x42, 0x80, 0, 0, 0, 0, 0, 0, 9}
	for _, b := range [][]byte{nil, make([]byte, 16), ambiguous} {
		if got := guidText(b); got != "" {
			t.Errorf("% x: got %q, want none", b, got)
		}
	}
}
