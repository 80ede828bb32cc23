package ipmi

import (
	"context"
	"crypto/rand"
	"encoding/binary"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/types"

	"bessemer/bmc/sim/flaw"
)

// Status codes of session setup (table 13-15).
const (
	statusNoRoom     = 0x01
	statusNoSession  = 0x02
	statusBadRole    = 0x09
	statusNoRole     = 0x0a
	statusNoName     = 0x0d
	statusBadProof   = 0x0f
	statusNoSuite    = 0x11
	statusBadRequest = 0x12
)

// plus answers a packet of RMCP+.
func (s *Server) plus(ctx context.Context, raw []byte) []byte {
	p, ok := parsePacket(raw)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.session != 0 {
		return s.inSession(ctx, p)
	}
	if p.flags != 0 {
		return nil
	}
	switch p.kind {
	case payloadOpenRequest:
		return packet{kind: payloadOpenResponse, payload: s.openSession(p.payload)}.datagram()
	case payloadRAKP1:
		return packet{kind: payloadRAKP2, payload: s.challenge(p.payload)}.datagram()
	case payloadRAKP3:
		if answer := s.prove(p.payload); answer != nil {
			return packet{kind: payloadRAKP4, payload: answer}.datagram()
		}
	case payloadIPMI:
		if answer := s.outside(ctx, p.payload); answer != nil {
			return packet{kind: payloadIPMI, payload: answer}.datagram()
		}
	}
	return nil
}

func (s *Server) inSession(ctx context.Context, p packet) []byte {
	x := s.find(p.session)
	if x == nil || !x.open || x.suite == nil || p.kind != payloadIPMI {
		return nil
	}
	plain, ok := x.unseal(p)
	if !ok {
		return nil
	}
	if answer := s.run(ctx, x, plain); answer != nil {
		return x.seal(answer)
	}
	return nil
}

// openSession answers an Open Session Request (sections 13.17 and 13.18).
func (s *Server) openSession(b []byte) []byte {
	if len(b) < 32 {
		return refuse(b, statusBadRequest)
	}
	if _, hit := s.c.Flaws.Hit(flaw.BMCSessions); hit {
		return refuse(b, statusNoRoom)
	}
	with, status := s.choose(b)
	if status != 0 {
		return refuse(b, status)
	}
	now := s.o.Now()
	if s.sessions.purge(now); s.sessions.count(true) >= s.o.Sessions {
		return refuse(b, statusNoRoom)
	}
	s.sessions.admit()
	x := &session{console: binary.LittleEndian.Uint32(b[4:]), suite: with, used: now, asked: b[1] & 0x0f}
	s.add(x)
	limit := s.limit()
	if x.asked != 0 {
		limit = min(x.asked, limit)
	}
	if s.c.Flaws.On("I-09") {
		limit = 0
	}
	answer := append([]byte{b[0], 0, limit, 0}, b[4:8]...)
	answer = binary.LittleEndian.AppendUint32(answer, x.id)
	for i, alg := range []byte{with.auth, with.integrity, with.crypt} {
		answer = append(answer, byte(i), 0, 0, 8, alg, 0, 0, 0)
	}
	return answer
}

// choose returns the cipher suite that a client asks for. A controller that
// lacks one may call it a bad role (I-05).
func (s *Server) choose(b []byte) (*suite, byte) {
	few := s.c.Flaws.On("I-05")
	for i := range suites {
		if w := &suites[i]; b[12] == w.auth && b[20] == w.integrity && b[28] == w.crypt && !(few && w.id != 3) {
			return w, 0
		}
	}
	if few {
		return nil, statusBadRole
	}
	return nil, statusNoSuite
}

// refuse is the answer to a request for a session that is not granted.
func refuse(b []byte, status byte) []byte {
	answer := []byte{0, status, 0, 0, 0, 0, 0, 0}
	if len(b) > 0 {
		answer[0] = b[0]
	}
	if len(b) >= 8 {
		copy(answer[4:], b[4:8])
	}
	return answer
}

// limit is the highest privilege that the user has (I-09).
func (s *Server) limit() byte {
	if s.c.Flaws.On("I-09") {
		return levelOperator
	}
	return levelAdmin
}

// challenge answers RAKP message 1 (sections 13.20 and 13.21).
func (s *Server) challenge(b []byte) []byte {
	if len(b) < 28 || int(b[27]) > len(b)-28 {
		return refuse(b[:min(len(b), 1)], statusBadRequest)
	}
	x := s.find(binary.LittleEndian.Uint32(b[4:]))
	if x == nil || x.open || x.suite == nil {
		return refuse(b[:1], statusNoSession)
	}
	tell := func(status byte) []byte {
		return binary.LittleEndian.AppendUint32([]byte{b[0], status, 0, 0}, x.console)
	}
	level := b[24] & 0x0f
	switch {
	case string(b[28:28+int(b[27])]) != s.o.User:
		return tell(statusNoName)
	case level == levelNone || level > s.limit():
		delete(s.sessions, x.id)
		return tell(statusNoRole)
	}
	if !x.challenged || [16]byte(b[8:24]) != x.theirs { // else the answer was lost
		_, _ = rand.Read(x.mine[:])
		x.key = s.passwordKey()
	}
	x.challenged, x.theirs, x.role, x.limit = true, [16]byte(b[8:24]), b[24], level
	guid := s.guid()
	code, err := crypto.RAKP2AuthCode(x.hash(), x.console, x.id, x.theirs[:], x.mine[:], guid[:], x.role, s.o.User, x.key[:])
	if err != nil {
		return tell(statusBadRequest)
	}
	answer := append(tell(0), x.mine[:]...)
	return append(append(answer, guid[:]...), code...)
}

// passwordKey is the key that the password makes. A controller that keeps no
// more than 16 bytes of it compares those (I-07).
func (s *Server) passwordKey() (key [20]byte) {
	n := 20
	if s.c.Flaws.On("I-07") {
		n = 16
	}
	copy(key[:n], s.o.Password)
	if _, hit := s.c.Flaws.Hit(flaw.BMCPassword); hit {
		_, _ = rand.Read(key[:])
	}
	return key
}

// prove answers RAKP message 3 (sections 13.22 and 13.23).
func (s *Server) prove(b []byte) []byte {
	if len(b) < 8 {
		return refuse(b[:min(len(b), 1)], statusBadRequest)
	}
	x := s.find(binary.LittleEndian.Uint32(b[4:]))
	if x == nil || !x.challenged {
		return refuse(b[:1], statusNoSession)
	}
	tell := func(status byte) []byte {
		return binary.LittleEndian.AppendUint32([]byte{b[0], status, 0, 0}, x.console)
	}
	if b[1] != 0 { // the client has given up
		if !x.open {
			delete(s.sessions, x.id)
		}
		return nil
	}
	want, err := crypto.RAKP3AuthCode(x.hash(), x.mine[:], x.console, x.role, s.o.User, x.key[:])
	if err != nil || !crypto.Equal(want, b[8:]) {
		if !x.open {
			delete(s.sessions, x.id)
		}
		return tell(statusBadProof)
	}
	if !x.open {
		if s.sessions.count(true) >= s.o.Sessions {
			return tell(statusNoRoom)
		}
		if !s.establish(x) {
			return tell(statusBadRequest)
		}
	}
	return append(tell(0), x.proof...)
}

// establish derives the keys of a session, which is open from then on.
func (s *Server) establish(x *session) bool {
	kg := x.key[:]
	if len(s.o.KG) > 0 {
		kg = s.o.KG
	}
	sik, k1, k2, err := crypto.DeriveSessionKeys(x.hash(), x.theirs[:], x.mine[:], x.role, s.o.User, kg)
	if err != nil {
		return false
	}
	guid := s.guid()
	proof, err := crypto.RAKP4ICV(types.AuthAlg(x.suite.auth), x.theirs[:], x.id, guid[:], sik)
	if err != nil {
		return false
	}
	x.k1, x.k2, x.proof = k1, k2, proof
	x.open, x.used, x.level = true, s.o.Now(), min(levelUser, x.limit)
	return true
}
