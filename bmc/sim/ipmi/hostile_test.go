package ipmi

import (
	"bytes"
	"encoding/binary"
	"net"
	"runtime"
	"testing"

	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
)

func newServer() (*Server, *sim.Memory) {
	m := sim.NewMemory(sim.Spec{Name: "node-1", Manufacturer: "A very long name of a manufacturer of computers, to be cut off at its end", Serial: "1"}, 0)
	return New(sim.NewController(m, flaw.NewSet(1)), Options{User: "root", Password: "canary-0815"}), m
}

// logged returns a server with an open session of each version.
func logged() (*Server, *sim.Memory, *session, *session) {
	s, m := newServer()
	plus := &session{console: 7, suite: &suites[1], used: s.o.Now(), open: true, limit: levelAdmin, level: levelAdmin, k1: make([]byte, 32), k2: make([]byte, 32)}
	old := &session{used: s.o.Now(), open: true, limit: levelAdmin, level: levelAdmin}
	s.add(plus)
	s.add(old)
	return s, m, plus, old
}

// command encodes a command as a client does.
func encode(netFn, cmd byte, data ...byte) []byte {
	b := []byte{addressBMC, netFn << 2}
	b = append(b, sum(b), 0x81, 4, cmd)
	b = append(b, data...)
	return append(b, sum(b[3:]))
}

// sealed makes the datagram that a client would send in a session.
func sealed(x *session, seq uint32, message []byte) []byte {
	client := &session{console: x.id, suite: x.suite, k1: x.k1, k2: x.k2, out: seq - 1}
	return client.seal(message)
}

// FuzzDatagrams feeds a controller all that may come from the network.
func FuzzDatagrams(f *testing.F) {
	open := make([]byte, 32)
	open[12], open[20], open[28] = 3, 4, 1
	f.Add(packet{kind: payloadOpenRequest, payload: open}.datagram())
	f.Add(packet{kind: payloadRAKP1, payload: make([]byte, 28)}.datagram())
	f.Add(packet{kind: payloadRAKP3, payload: make([]byte, 8)}.datagram())
	f.Add(packet{kind: payloadIPMI, payload: encode(netApp, 0x38, 0x8e, 4)}.datagram())
	f.Add(legacyPacket{message: encode(netApp, 0x38, 0x0e, 4)}.datagram())
	f.Add(legacyPacket{message: encode(netApp, 0x39, append([]byte{2}, append([]byte("root"), make([]byte, 12)...)...)...)}.datagram())
	f.Add([]byte{6, 0, 0xff, classASF, 0, 0, 0x11, 0xbe, 0x80, 0, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, m, plus, old := logged()
		s.handle(t.Context(), raw)
		for _, id := range []uint32{plus.id, old.id} { // the same, addressed to a session
			for _, at := range []int{6, 9} {
				if len(raw) >= at+4 {
					b := bytes.Clone(raw)
					binary.LittleEndian.PutUint32(b[at:], id)
					s.handle(t.Context(), b)
				}
			}
		}
		if s.sessions.count(true) != 2 || s.sessions.count(false) > 8 || len(m.Starts()) > 0 || plus.out+old.out > 0 {
			t.Errorf("% x got further than it may", raw)
		}
	})
}

// FuzzCommands feeds it commands of a client that is logged in.
func FuzzCommands(f *testing.F) {
	for key, c := range commands {
		f.Add(key[0], key[1], make([]byte, c.least))
		f.Add(key[0], key[1], bytes.Repeat([]byte{0xff}, c.least+3))
	}
	f.Fuzz(func(t *testing.T, netFn, cmd byte, data []byte) {
		s, _, plus, old := logged()
		s.c.Log("OK", "a first entry")
		if len(data) > maxPacket {
			data = data[:maxPacket]
		}
		message := encode(netFn&0x3e, cmd, data...)
		for _, b := range [][]byte{
			sealed(plus, 1, message), plus.seal(data), // not meant for the controller
			(&session{id: old.id}).sign(message[:min(len(message), 255)]),
		} {
			if got := s.handle(t.Context(), b); len(got) > 300 {
				t.Errorf("an answer of %d bytes", len(got))
			}
		}
	})
}

// TestForged sends a session what is not signed, not encrypted or not new.
func TestForged(t *testing.T) {
	s, m, plus, _ := logged()
	on := encode(netChassis, 0x02, powerUp)
	flipped := sealed(plus, 1, on)
	flipped[20] ^= 1
	for name, b := range map[string][]byte{
		"bare":                  packet{kind: payloadIPMI, session: plus.id, seq: 1, payload: on}.datagram(),
		"encrypted, not signed": packet{kind: payloadIPMI, flags: flagEncrypted, session: plus.id, seq: 1, payload: make([]byte, 48)}.datagram(),
		"a flipped bit":         flipped,
		"outside of a session":  packet{kind: payloadIPMI, payload: on}.datagram(),
		"IPMI 1.5":              legacyPacket{message: on, session: plus.id, seq: 1}.datagram(),
		"IPMI 1.5, no session":  legacyPacket{message: on}.datagram(),
	} {
		if got := s.handle(t.Context(), b); got != nil || len(m.Starts()) > 0 {
			t.Errorf("%s: was answered % x, and %d starts", name, got, len(m.Starts()))
		}
	}
	b := sealed(plus, 5, on)
	if s.handle(t.Context(), b) == nil || len(m.Starts()) != 1 {
		t.Fatal("the real one was not taken")
	}
	if s.handle(t.Context(), b) != nil {
		t.Error("a replay was taken")
	}
	for _, tt := range []struct {
		seq  uint32
		want bool
	}{{3, true}, {4, true}, {3, false}, {40, true}, {39, true}, {2, false}, {40, false}} {
		if got := s.handle(t.Context(), sealed(plus, tt.seq, encode(netChassis, 0x01))) != nil; got != tt.want {
			t.Errorf("number %d: taken is %v", tt.seq, got)
		}
	}
}

// TestRepeatedCommand repeats a power cycle, as a client does that has not got
// the answer, under a new packet number.
func TestRepeatedCommand(t *testing.T) {
	s, m, plus, _ := logged()
	s.handle(t.Context(), sealed(plus, 1, encode(netChassis, 0x02, powerUp)))
	for seq := range uint32(3) {
		if s.handle(t.Context(), sealed(plus, 2+seq, encode(netChassis, 0x02, powerCycle))) == nil {
			t.Error("no answer")
		}
	}
	if n := len(m.Starts()); n != 2 {
		t.Errorf("got %d starts, want one for power on and one for the cycle", n)
	}
}

// TestPasswordChanged has sessions end when their password does.
func TestPasswordChanged(t *testing.T) {
	s, _, plus, old := logged()
	s.c.Flaws.Inject(flaw.Fault{Kind: flaw.BMCPassword})
	for _, b := range [][]byte{sealed(plus, 1, encode(netChassis, 0x01)), (&session{id: old.id}).sign(encode(netChassis, 0x01))} {
		if got := s.handle(t.Context(), b); got != nil {
			t.Errorf("was answered % x", got)
		}
	}
	if n := s.sessions.count(true); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// TestPrivilege holds commands to their privilege.
func TestPrivilege(t *testing.T) {
	s, m, plus, _ := logged()
	plus.level = levelUser
	answer, _ := plus.client().unsealed(s.handle(t.Context(), sealed(plus, 1, encode(netChassis, 0x02, powerUp))))
	if len(answer) < 7 || answer[6] != codePrivilege || len(m.Starts()) != 0 {
		t.Errorf("a user turned the machine on: % x", answer)
	}
}

// client is the other side of a session.
func (x *session) client() *session {
	return &session{id: x.console, suite: x.suite, k1: x.k1, k2: x.k2}
}

func (x *session) unsealed(raw []byte) ([]byte, bool) {
	p, ok := parsePacket(raw)
	if !ok {
		return nil, false
	}
	return x.unseal(p)
}

// TestFlood begins logins without end.
func TestFlood(t *testing.T) {
	s, _, _, _ := logged()
	open := make([]byte, 32)
	open[12], open[20], open[28] = 3, 4, 1
	for range 1000 {
		s.handle(t.Context(), packet{kind: payloadOpenRequest, payload: open}.datagram())
		s.handle(t.Context(), legacyPacket{message: encode(netApp, 0x39, append([]byte{2}, append([]byte("root"), make([]byte, 12)...)...)...)}.datagram())
	}
	if n := s.sessions.count(false); n != maxLogins || s.sessions.count(true) != 2 {
		t.Errorf("got %d logins and %d sessions, want %d and 2", n, s.sessions.count(true), maxLogins)
	}
}

// TestIdleCost runs many controllers at once.
func TestIdleCost(t *testing.T) {
	const n = 500
	var before, after runtime.MemStats
	goroutines := runtime.NumGoroutine()
	runtime.GC()
	runtime.ReadMemStats(&before)
	var servers []*Server
	for range n {
		s, _ := newServer()
		conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(conn) }()
		servers = append(servers, s)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := runtime.NumGoroutine() - goroutines; got > n {
		t.Errorf("%d controllers have %d goroutines", n, got)
	}
	each := (after.HeapAlloc + after.StackInuse - before.HeapAlloc - before.StackInuse) / n
	t.Logf("%d bytes for each idle controller, with its machine", each)
	if each > 10<<10 {
		t.Errorf("an idle controller costs %d bytes", each)
	}
	for _, s := range servers {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
