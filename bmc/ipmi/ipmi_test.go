package ipmi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
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

func TestBootFlags(t *testing.T) {
	for _, tt := range []struct {
		maker uint32
		boot  bmc.Boot
		want  []byte
	}{
		{0, bmc.Boot{Device: bmc.PXE, Mode: "uefi"}, []byte{0xa0, 0x04, 0, 0, 0}}, // I-01
		{0, bmc.Boot{Device: bmc.PXE, Mode: "bios"}, []byte{0x80, 0x04, 0, 0, 0}},
		{0, bmc.Boot{Device: bmc.Disk, Mode: "uefi", Persistent: true}, []byte{0xe0, 0x08, 0, 0, 0}},
		{0, bmc.Boot{Device: bmc.Disk, Mode: "bios", Persistent: true}, []byte{0xc0, 0x08, 0, 0, 0}},
		{10876, bmc.Boot{Device: bmc.Disk, Mode: "uefi", Persistent: true}, []byte{0xe0, 0x24, 0, 0, 0}}, // I-02
		{10876, bmc.Boot{Device: bmc.Disk, Mode: "bios"}, []byte{0x80, 0x08, 0, 0, 0}},
		{0, bmc.Boot{Device: bmc.CDROM}, []byte{0xa0, 0x14, 0, 0, 0}},
		{0, bmc.Boot{}, []byte{0, 0, 0, 0, 0}},
	} {
		b := newFakeBMC(t, options{maker: tt.maker})
		if err := open(t, b.port).SetBoot(t.Context(), tt.boot); err != nil {
			t.Errorf("%s: %v", tt.boot, err)
		}
		if got := b.takeFlags(); !bytes.Equal(got, tt.want) {
			t.Errorf("%s of maker %d: got % x, want % x", tt.boot, tt.maker, got, tt.want)
		}
	}
}

func TestUnaskedModeStays(t *testing.T) {
	b := newFakeBMC(t, options{})
	d := open(t, b.port)
	for _, boot := range []bmc.Boot{{Device: bmc.PXE, Mode: "bios"}, {Device: bmc.Disk}} {
		if err := d.SetBoot(t.Context(), boot); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.Boot(t.Context()); err != nil || got.Mode != "bios" {
		t.Errorf("got %s, %v, want the mode bios", got, err)
	}
}

// TestFlagsAreWrittenThoughCourtesiesAreRefused has a controller that refuses
// all parameters but the flags (H12).
func TestFlagsAreWrittenThoughCourtesiesAreRefused(t *testing.T) {
	s := &script{answer: func(cmd command, data []byte) ([]byte, byte) {
		if cmd.id == cmdSetBoot.id && data[0] != paramBootFlags {
			return nil, codeNoParameter
		}
		if cmd.id == cmdGetBoot.id {
			return []byte{1, paramBootFlags, 0xa0, 0x04, 0, 0, 0}, 0
		}
		return nil, 0
	}}
	if err := s.driver().SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}); err != nil {
		t.Fatal(err)
	}
	if !s.sent(cmdSetBoot, paramBootFlags, 0xa0, 0x04, 0, 0, 0) {
		t.Errorf("the flags were not written: %v", s.log)
	}
	s.answer = func(cmd command, data []byte) ([]byte, byte) { return nil, codeNoParameter }
	if err := s.driver().SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}); code(err) != codeNoParameter {
		t.Errorf("refused flags: got %v, want 0x80", err)
	}
}

// TestReadBackThatMeansNothing has a controller that always says that its
// flags are not valid, as ipmi_sim does.
func TestReadBackThatMeansNothing(t *testing.T) {
	s := &script{answer: func(cmd command, _ []byte) ([]byte, byte) {
		if cmd.id == cmdGetBoot.id {
			return []byte{1, paramBootFlags, 0, 0, 0, 0, 0}, 0
		}
		return []byte{1}, 0
	}}
	d := s.driver()
	if got, err := d.Boot(t.Context()); err != nil || got != (bmc.Boot{}) {
		t.Errorf("before: got %s, %v, want none", got, err)
	}
	if err := d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Boot(t.Context()); !errors.Is(err, bmc.ErrNoReadBack) {
		t.Errorf("after: got %v, want ErrNoReadBack", err)
	}
}

func TestForceBootDevice(t *testing.T) {
	for _, force := range []string{"False", "True"} {
		b := newFakeBMC(t, options{})
		d := open(t, b.port, "ipmi_force_boot_device", force)
		if err := d.SetBoot(t.Context(), bmc.Boot{Device: bmc.Disk, Mode: "uefi", Persistent: true}); err != nil {
			t.Fatal(err)
		}
		b.takeFlags()
		if err := d.Power(t.Context(), bmc.On); err != nil {
			t.Fatal(err)
		}
		if got := b.takeFlags() != nil; got != (force == "True") {
			t.Errorf("ipmi_force_boot_device=%s: set again is %v (I-14)", force, got)
		}
	}
}

func TestDisableBootTimeout(t *testing.T) {
	for _, keep := range []bool{true, false} {
		s := &script{}
		d := s.driver()
		d.s.keepFlags = keep
		if err := d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}); err != nil {
			t.Fatal(err)
		}
		if got := s.sent(cmdSetBoot, paramKeepValid, 8); got != keep {
			t.Errorf("ipmi_disable_boot_timeout=%v: parameter 3 sent is %v (I-03)", keep, got)
		}
	}
}

// script is a session whose answers are made up.
type script struct {
	answer func(command, []byte) ([]byte, byte)
	log    [][]byte
}

func (s *script) driver() *driver {
	d := newDriver(settings{timing: defaultTiming, keepFlags: true})
	d.s.timing.backOff = 0
	d.ch, d.used = s, time.Now()
	return d
}

func (s *script) send(_ context.Context, cmd command, data ...byte) ([]byte, error) {
	s.log = append(s.log, append([]byte{cmd.netFn, cmd.id}, data...))
	answer, code := []byte{1, paramBootFlags, 0xa0, 0x04, 0, 0, 0}, byte(0)
	if s.answer != nil {
		answer, code = s.answer(cmd, data)
	}
	if code != 0 {
		return nil, &completionError{cmd.name, code}
	}
	return answer, nil
}

func (s *script) sent(cmd command, data ...byte) bool {
	for _, l := range s.log {
		if bytes.Equal(l, append([]byte{cmd.netFn, cmd.id}, data...)) {
			return true
		}
	}
	return false
}

func (s *script) end(context.Context) error { return nil }
func (s *script) close() error              { return nil }

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

func TestPacketLoss(t *testing.T) {
	b := newFakeBMC(t, options{})
	r := rand.New(rand.NewPCG(1, 2))
	port := relay(t, b.port, func(_ int, _ bool, p []byte) []byte {
		if r.IntN(100) < 20 {
			return nil
		}
		return p
	})
	d := open(t, port)
	d.s.timing.first, d.s.timing.max, d.s.timing.tries = 20e6, 20e6, 12
	for range 5 {
		for _, a := range []bmc.PowerAction{bmc.On, bmc.ForceOff} {
			if err := d.Power(t.Context(), a); err != nil {
				t.Fatalf("%s: %v", a, err)
			}
		}
		if err := d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForgedAnswers injects packets into a session: unsigned, unencrypted,
// truncated, replayed. None may be taken for an answer.
func TestForgedAnswers(t *testing.T) {
	t.Parallel()
	b := newFakeBMC(t, options{})
	var old []byte // the last answer, to be replayed
	for _, tt := range []struct {
		name  string
		forge func(local uint32, b []byte) []byte
	}{
		{"neither signed nor encrypted", func(_ uint32, b []byte) []byte {
			p, _, _, _ := parsePacket(b)
			m := message{netFn: 1, cmd: cmdChassisStatus.id, data: []byte{0, 1}}.request()
			m[0], m[3] = addressConsole, addressBMC
			p.flags, p.payload = 0, m
			return append(rmcpHeader[:4:4], p.encode()...)
		}},
		{"a flipped bit", func(_ uint32, b []byte) []byte { b[20] ^= 1; return b }},
		{"a flipped bit of the signature", func(_ uint32, b []byte) []byte { b[len(b)-1] ^= 1; return b }},
		{"truncated", func(_ uint32, b []byte) []byte { return b[:18] }},
		{"encrypted and too short", func(_ uint32, b []byte) []byte {
			p, _, _, _ := parsePacket(b)
			p.flags, p.payload = flagEncrypted, []byte{1, 2, 3}
			return append(rmcpHeader[:4:4], p.encode()...)
		}},
		{"empty", func(uint32, []byte) []byte { return []byte{} }},
		{"a replay", func(_ uint32, b []byte) []byte { return old }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var forging atomic.Bool
			port := relay(t, b.port, func(_ int, toBMC bool, p []byte) []byte {
				q, _, _, err := parsePacket(p)
				if toBMC || err != nil || q.flags == 0 {
					return p
				}
				if !forging.Load() {
					old = bytes.Clone(p)
					return p
				}
				return tt.forge(q.session, p)
			})
			d := open(t, port)
			d.s.timing.first, d.s.timing.max, d.s.timing.tries = 30*time.Millisecond, 30*time.Millisecond, 2
			if _, err := d.PowerState(t.Context()); err != nil {
				t.Fatal(err)
			}
			forging.Store(true)
			if s, err := d.PowerState(t.Context()); err == nil {
				t.Errorf("got %q from a forged answer", s)
			}
			forging.Store(false)
			if _, err := d.PowerState(t.Context()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestWeakSuitesAreRefused has a controller that offers suite 0 only.
func TestWeakSuitesAreRefused(t *testing.T) {
	b := newFakeBMC(t, options{suites: []types.CipherSuiteID{types.CipherSuiteID0}})
	_, err := open(t, b.port).PowerState(t.Context())
	if err == nil || !strings.Contains(err.Error(), "none of the cipher suites that are safe to use (17: ") {
		t.Errorf("got %v, want that no safe suite is offered", err)
	}
	if b.Sessions.Count() != 0 {
		t.Errorf("got %d sessions, want none", b.Sessions.Count())
	}
}

func TestSuiteIsRemembered(t *testing.T) {
	b := newFakeBMC(t, options{suites: []types.CipherSuiteID{types.CipherSuiteID3}})
	var opens atomic.Int64
	port := relay(t, b.port, func(_ int, toBMC bool, p []byte) []byte {
		if q, _, _, err := parsePacket(p); toBMC && err == nil && q.kind == payloadOpenRequest {
			opens.Add(1)
		}
		return p
	})
	d := open(t, port)
	for range 3 {
		if _, err := d.PowerState(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.drop(t.Context())
	}
	if n := opens.Load(); n != 2+1+1 {
		t.Errorf("got %d session requests for three sessions, want 4", n)
	}
}

func TestSessionsAreClosed(t *testing.T) {
	b := newFakeBMC(t, options{})
	for range 5 {
		d := open(t, b.port)
		if _, err := d.PowerState(t.Context()); err != nil {
			t.Fatal(err)
		}
		wrong := open(t, b.port, "ipmi_password", "wrong-0816")
		if _, err := wrong.PowerState(t.Context()); !errors.Is(err, bmc.ErrCredentials) {
			t.Errorf("got %v, want ErrCredentials", err)
		}
		d.Close()
		wrong.Close()
	}
	if n := b.Sessions.Count(); n != 0 {
		t.Errorf("got %d sessions left at the controller, want 0", n)
	}
}

func TestLostSessionIsOpenedAnew(t *testing.T) {
	b := newFakeBMC(t, options{})
	d := open(t, b.port)
	if _, err := d.PowerState(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Sessions.Close(d.ch.(*session).remote); err != nil {
		t.Fatal(err)
	}
	d.ch.(*session).t.tries = 1
	if _, err := d.PowerState(t.Context()); err != nil {
		t.Errorf("after the controller lost the session: %v", err)
	}
}

// TestNoRoomIsWaitedFor answers the first requests for a session with
// "insufficient resources".
func TestNoRoomIsWaitedFor(t *testing.T) {
	b := newFakeBMC(t, options{})
	var full atomic.Int64
	full.Store(2)
	port := relay(t, b.port, func(_ int, toBMC bool, p []byte) []byte {
		q, _, _, err := parsePacket(p)
		if !toBMC && err == nil && q.kind == payloadOpenResponse && full.Add(-1) >= 0 {
			q.payload = append([]byte{q.payload[0], 0x01, 0, 0}, q.payload[4:8]...)
			return append(rmcpHeader[:4:4], q.encode()...)
		}
		return p
	})
	if _, err := open(t, port).PowerState(t.Context()); err != nil {
		t.Error(err)
	}
	full.Store(1000)
	_, err := open(t, port).PowerState(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no room for another session") {
		t.Errorf("got %v, want no room", err)
	}
}

func TestKg(t *testing.T) {
	kg := bytes.Repeat([]byte{7}, 20)
	b := newFakeBMC(t, options{kg: kg})
	if _, err := open(t, b.port, "ipmi_hex_kg_key", fmt.Sprintf("%x", kg)).PowerState(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := open(t, b.port).PowerState(t.Context())
	if !errors.Is(err, bmc.ErrCredentials) || !strings.Contains(err.Error(), "ipmi_hex_kg_key") {
		t.Errorf("without the key: got %v, want a hint", err)
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

func FuzzPackets(f *testing.F) {
	f.Add(append(rmcpHeader[:4:4], packet{kind: payloadRAKP2, payload: make([]byte, 60)}.encode()...))
	f.Add(legacyPacket(message{netFn: 6, cmd: 0x38, data: []byte{0x8e, 4}}))
	f.Add([]byte{6, 0, 0xff, 7, 6, 0xc0, 1, 0, 0, 0, 1, 0, 0, 0, 3, 0, 1, 2, 3})
	c := &session{suite: suite17, local: 1, k1: make([]byte, 32), k2: make([]byte, 32)}
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, body, trailer, err := parsePacket(b); err == nil && len(p.payload)+len(trailer) > len(body) {
			t.Errorf("payload of %d and trailer of %d bytes in %d", len(p.payload), len(trailer), len(body))
		}
		_, _ = parseLegacy(b)
		_, _ = parseAnswer(b)
		_, _ = parseBoot(b)
		_ = guidText(b)
		if plain, err := c.unseal(b); err == nil {
			t.Errorf("took % x for signed: % x", b, plain)
		}
	})
}
