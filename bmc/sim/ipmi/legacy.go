package ipmi

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"strings"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/types"

	"bessemer/bmc/sim/flaw"
)

const (
	authNone = 0
	authMD5  = 2
)

// legacy answers a packet of IPMI 1.5: a command outside of sessions, or in
// one that is signed with MD5.
func (s *Server) legacy(ctx context.Context, raw []byte) []byte {
	p, ok := parseLegacy(raw)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.session == 0 {
		if answer := s.outside(ctx, p.message); answer != nil && p.auth == authNone {
			return legacyPacket{message: answer}.datagram()
		}
		return nil
	}
	x := s.find(p.session)
	if x == nil || x.suite != nil || p.auth != authMD5 {
		return nil
	}
	if !crypto.VerifyMultiSessionAuthCode(types.AuthTypeMD5, x.key[:16], p.session, p.seq, p.message, p.code) {
		return nil
	}
	if !x.open {
		return s.activate(x, p)
	}
	if !x.in.take(p.seq) {
		return nil
	}
	if answer := s.run(ctx, x, p.message); answer != nil {
		return x.sign(answer)
	}
	return nil
}

// sign makes the datagram of an answer.
func (x *session) sign(message []byte) []byte {
	x.out++
	return legacyPacket{
		auth: authMD5, seq: x.out, session: x.id, message: message,
		code: crypto.AuthCodeMultiSession(types.AuthTypeMD5, x.key[:16], x.id, x.out, message),
	}.datagram()
}

// getChallenge is Get Session Challenge (section 22.16).
func (s *Server) getChallenge(c call) ([]byte, byte) {
	switch {
	case len(c.data) < 17:
		return nil, codeLength
	case s.o.NoLegacy:
		return nil, codeUnknown
	case c.data[0]&0x0f != authMD5:
		return nil, codeField
	case strings.TrimRight(string(c.data[1:17]), "\x00") != s.o.User:
		return nil, 0x81 // invalid user name
	}
	s.sessions.purge(s.o.Now())
	s.sessions.admit()
	x := &session{used: s.o.Now(), key: s.passwordKey()}
	_, _ = rand.Read(x.mine[:])
	s.add(x)
	return append(binary.LittleEndian.AppendUint32(nil, x.id), x.mine[:]...), 0
}

// activate answers Activate Session (section 22.17), the first command under
// an id that Get Session Challenge gave. That of the session stays the same.
func (s *Server) activate(x *session, p legacyPacket) []byte {
	r, ok := parseRequest(p.message)
	if !ok || r.netFn != netApp || r.cmd != 0x3a || len(r.data) < 22 {
		return nil
	}
	if [16]byte(r.data[2:18]) != x.mine {
		return nil
	}
	tell := func(code byte, data []byte) []byte {
		x.out = binary.LittleEndian.Uint32(r.data[18:]) - 1
		return x.sign(r.answer(code, data))
	}
	level := r.data[1] & 0x0f
	_, full := s.c.Flaws.Hit(flaw.BMCSessions)
	switch {
	case full || s.sessions.count(true) >= s.o.Sessions:
		delete(s.sessions, x.id)
		return tell(0x81, nil) // no session slot
	case level == levelNone || level > s.limit():
		delete(s.sessions, x.id)
		return tell(0x86, nil) // privilege exceeds the user's limit
	}
	x.open, x.used, x.limit, x.level = true, s.o.Now(), level, min(levelUser, level)
	const first = 1 // number of the client's next packet
	data := append([]byte{authMD5}, binary.LittleEndian.AppendUint32(nil, x.id)...)
	return tell(0, append(binary.LittleEndian.AppendUint32(data, first), x.limit))
}
