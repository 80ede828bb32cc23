package ipmi

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"

	"bessemer/bmc"
)

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
