package ipmi

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/types"
)

// Privilege levels (section 6.8).
const (
	levelNone     = 0
	levelUser     = 2
	levelOperator = 3
	levelAdmin    = 4
)

const (
	idle       = 60 * time.Second // a session unused for longer is gone (section 6.12.15)
	loginTime  = 10 * time.Second // a login takes no longer
	maxLogins  = 16               // logins under way; of more, the oldest is forgotten
	replayTime = 5 * time.Second  // a command repeated within is not done again (section 5.3)
)

// A session is one that is open, or about to be.
type session struct {
	id, console uint32 // ours, and the client's
	used        time.Time
	limit       byte // highest privilege
	level       byte // privilege now
	in          window
	out         uint32 // number of our last packet
	last        done

	suite        *suite // nil with IPMI 1.5
	asked        byte   // highest privilege that the client wants
	role         byte   // as RAKP message 1 has it
	mine, theirs [16]byte
	challenged   bool // message 2 was sent
	key          [20]byte
	k1, k2       []byte
	proof        []byte // message 4, should it be lost
	open         bool
}

// done is the last command, with its answer: a client that lost the answer
// asks again under the same number, and a power cycle must not be done twice.
type done struct {
	at     time.Time
	what   string
	answer []byte
}

// sessions are a controller's sessions by their id.
type sessions map[uint32]*session

// purge forgets what has expired.
func (ss sessions) purge(now time.Time) {
	for id, x := range ss {
		if age := now.Sub(x.used); age > idle || !x.open && age > loginTime {
			delete(ss, id)
		}
	}
}

// count is the number of open sessions, or of logins under way.
func (ss sessions) count(open bool) (n int) {
	for _, x := range ss {
		if x.open == open {
			n++
		}
	}
	return n
}

// admit makes room for a login: of too many, the oldest goes.
func (ss sessions) admit() {
	if ss.count(false) < maxLogins {
		return
	}
	var oldest *session
	for _, x := range ss {
		if !x.open && (oldest == nil || x.used.Before(oldest.used)) {
			oldest = x
		}
	}
	delete(ss, oldest.id)
}

// add gives a session its id; 0 is reserved.
func (s *Server) add(x *session) {
	if s.sessions == nil {
		s.sessions = sessions{}
	}
	for x.id == 0 || s.sessions[x.id] != nil {
		x.id = randomID()
	}
	s.sessions[x.id] = x
}

// find returns a session that has not expired.
func (s *Server) find(id uint32) *session {
	s.sessions.purge(s.o.Now())
	return s.sessions[id]
}

func randomID() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint32(b[:])
}

// A window is the numbers of the packets that came: the highest, and which of
// the 31 below it (section 6.12.13).
type window struct {
	top  uint32
	seen uint32 // bit n: top-n came
}

// take reports whether a number is new, and remembers it.
func (w *window) take(seq uint32) bool {
	switch {
	case seq == 0:
		return false
	case seq > w.top:
		if d := seq - w.top; d < 32 {
			w.seen = w.seen<<d | 1
		} else {
			w.seen = 1
		}
		w.top = seq
		return true
	case w.top-seq >= 32 || w.seen>>(w.top-seq)&1 != 0:
		return false
	}
	w.seen |= 1 << (w.top - seq)
	return true
}

// A suite is a cipher suite (table 22-20).
type suite struct {
	id, auth, integrity, crypt byte
	code                       int // bytes of a packet's signature
}

var suites = []suite{{3, 1, 1, 1, 12}, {17, 3, 4, 1, 16}}

func (x *session) hash() types.AuthAlg { return types.AuthAlg(x.suite.auth) }

// seal makes the datagram of an answer: encrypted (section 13.29) and signed
// (section 13.28.4).
func (x *session) seal(plain []byte) []byte {
	var iv [16]byte
	_, _ = rand.Read(iv[:])
	payload, err := crypto.EncryptAESPayload(plain, x.k2, iv[:])
	if err != nil {
		return nil
	}
	x.out++
	b := packet{kind: payloadIPMI, flags: flagEncrypted | flagSigned, session: x.console, seq: x.out, payload: payload}.encode()
	pad := (4 - (len(b)+2)%4) % 4
	for range pad {
		b = append(b, 0xff)
	}
	b = append(b, byte(pad), 7)
	signature, err := crypto.SessionIntegrityAuthCode(types.IntegrityAlg(x.suite.integrity), b, x.k1, "")
	if err != nil {
		return nil
	}
	return append(append(rmcpHeader[:4:4], b...), signature...)
}

// unseal checks that a packet is signed, encrypted and new, and returns its
// message.
func (x *session) unseal(p packet) ([]byte, bool) {
	n := len(p.body) - x.suite.code
	if p.flags != flagEncrypted|flagSigned || len(p.trailer) < x.suite.code+2 {
		return nil, false
	}
	want, err := crypto.SessionIntegrityAuthCode(types.IntegrityAlg(x.suite.integrity), p.body[:n], x.k1, "")
	if err != nil || !crypto.Equal(want, p.body[n:]) {
		return nil, false
	}
	if m := len(p.payload); m < 32 || m%16 != 0 || !x.in.take(p.seq) {
		return nil, false
	}
	plain, err := crypto.DecryptAESPayload(p.payload, x.k2)
	return plain, err == nil
}
