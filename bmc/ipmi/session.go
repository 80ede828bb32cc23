package ipmi

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/rmcpplus"
	"github.com/bougou/go-ipmi/pkg/types"

	"bessemer/bmc"
)

// nameOnly asks the controller to look the user up by name alone.
const nameOnly = 0x10

// A session is an RMCP+ session (section 13). Every packet in it is signed
// and encrypted, both ways; what is not is dropped.
type session struct {
	*link
	s      settings
	suite  suite
	local  uint32 // our identifier of the session
	remote uint32 // the controller's
	k1, k2 []byte

	sent     uint32 // number of our last packet
	received uint32 // highest number of the controller's
	seq      byte   // number of the last command, 6 bits
}

// openSession makes a session with one cipher suite (section 13.15).
func openSession(ctx context.Context, l *link, s settings, with suite) (*session, error) {
	c := &session{link: l, s: s, suite: with, local: randomID()}
	if err := c.negotiate(ctx); err != nil {
		return nil, err
	}
	if err := c.authenticate(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// randomID returns a session identifier; 0 is reserved.
func randomID() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return max(binary.LittleEndian.Uint32(b[:]), 1)
}

// negotiate agrees on the algorithms. A controller that answers with others
// than we asked for is refused.
func (c *session) negotiate(ctx context.Context) error {
	req := &rmcpplus.OpenSessionRequest{
		MessageTag: 1, RequestedMaximumPrivilegeLevel: types.PrivilegeLevel(c.s.privilege), RemoteConsoleSessionID: c.local,
	}
	req.AuthenticationPayload, req.IntegrityPayload, req.ConfidentialityPayload = rmcpplus.NewAlgorithmPayloads(c.suite.auth, c.suite.integrity, c.suite.crypt)
	var res rmcpplus.OpenSessionResponse
	err := c.setup(ctx, payloadOpenRequest, req.Pack(), payloadOpenResponse, func(b []byte) bool {
		res = rmcpplus.OpenSessionResponse{}
		return res.Unpack(b) == nil && res.MessageTag == 1 && res.RemoteConsoleSessionID == c.local
	})
	switch {
	case err != nil:
		return err
	case res.RmcpStatusCode != 0:
		return &setupError{"open session", byte(res.RmcpStatusCode)}
	case res.AuthAlg != uint8(c.suite.auth), res.IntegrityAlg != uint8(c.suite.integrity), res.CryptAlg != uint8(c.suite.crypt):
		return fmt.Errorf("open session: the controller wants other algorithms than cipher suite %d", c.suite.id)
	}
	c.remote = res.ManagedSystemSessionID
	return nil
}

// authenticate proves to each side that the other knows the password
// (RAKP, sections 13.20 to 13.23), and derives the keys.
func (c *session) authenticate(ctx context.Context) error {
	var mine [16]byte
	_, _ = rand.Read(mine[:])
	role := c.s.privilege | nameOnly
	key := crypto.PadPassword20([]byte(c.s.password))
	rakp2, err := c.challenge(ctx, mine, role)
	if err != nil {
		return err
	}
	theirs, guid := rakp2.ManagedSystemRandomNumber[:], rakp2.ManagedSystemGUID[:]
	knows := func(key []byte) bool {
		want, err := crypto.RAKP2AuthCode(c.suite.auth, c.local, c.remote, mine[:], theirs, guid, role, c.s.user, key)
		if err == nil {
			want, err = crypto.TruncateRAKP2AuthCode(c.suite.auth, want)
		}
		return err == nil && crypto.Equal(want, rakp2.KeyExchangeAuthenticationCode)
	}
	if !knows(key) && len(c.s.password) > maxPassword15 {
		// Some keep no more of a password than IPMI 1.5 had room for (I-07).
		if short := crypto.PadPassword20([]byte(c.s.password[:maxPassword15])); knows(short) {
			key = short
			bmc.Note(ctx, fmt.Sprintf("the controller compares only the first %d bytes of the password", maxPassword15))
		}
	}
	if !knows(key) {
		c.abandon()
		return fmt.Errorf("log in as %q: %w", c.s.user, bmc.ErrCredentials)
	}
	kg := key
	if len(c.s.kg) > 0 {
		kg = c.s.kg
	}
	sik, k1, k2, err := crypto.DeriveSessionKeys(c.suite.auth, mine[:], theirs, role, c.s.user, kg)
	if err != nil {
		return err
	}
	c.k1, c.k2 = k1, k2
	return c.prove(ctx, mine[:], theirs, guid, role, key, sik)
}

// challenge sends RAKP message 1 and returns message 2.
func (c *session) challenge(ctx context.Context, mine [16]byte, role byte) (rmcpplus.RAKPMessage2, error) {
	req := &rmcpplus.RAKPMessage1{
		MessageTag: 2, ManagedSystemSessionID: c.remote, RemoteConsoleRandomNumber: mine,
		NameOnlyLookup: true, RequestedMaximumPrivilegeLevel: types.PrivilegeLevel(role &^ nameOnly),
		UsernameLength: uint8(len(c.s.user)), Username: []byte(c.s.user),
	}
	var res rmcpplus.RAKPMessage2
	err := c.setup(ctx, payloadRAKP1, req.Pack(), payloadRAKP2, func(b []byte) bool {
		res = rmcpplus.RAKPMessage2{AuthAlg: c.suite.auth}
		return res.Unpack(b) == nil && res.MessageTag == 2 && res.RemoteConsoleSessionID == c.local
	})
	if err == nil && res.RmcpStatusCode != 0 {
		err = &setupError{"log in", byte(res.RmcpStatusCode)}
	}
	return res, err
}

// prove sends RAKP message 3 and checks message 4.
func (c *session) prove(ctx context.Context, mine, theirs, guid []byte, role byte, key, sik []byte) error {
	proof, err := crypto.RAKP3AuthCode(c.suite.auth, theirs, c.local, role, c.s.user, key)
	if err != nil {
		return err
	}
	req := &rmcpplus.RAKPMessage3{MessageTag: 3, ManagedSystemSessionID: c.remote, KeyExchangeAuthenticationCode: proof}
	var res rmcpplus.RAKPMessage4
	err = c.setup(ctx, payloadRAKP3, req.Pack(), payloadRAKP4, func(b []byte) bool {
		res = rmcpplus.RAKPMessage4{AuthAlg: c.suite.auth}
		return res.Unpack(b) == nil && res.MessageTag == 3 && res.MgmtConsoleSessionID == c.local
	})
	if err != nil {
		return err
	}
	if res.RmcpStatusCode != 0 {
		return &setupError{"log in", byte(res.RmcpStatusCode)}
	}
	want, err := crypto.RAKP4ICV(c.suite.auth, mine, c.remote, guid, sik)
	if err != nil {
		return err
	}
	if !crypto.Equal(want, res.IntegrityCheckValue) {
		return fmt.Errorf("log in as %q: the controller's last proof is wrong; if it has a key of its own, set ipmi_hex_kg_key: %w", c.s.user, bmc.ErrCredentials)
	}
	return nil
}

// abandon tells the controller that the login is off, so that it frees the
// session at once. No answer is waited for.
func (c *session) abandon() {
	req := &rmcpplus.RAKPMessage3{MessageTag: 3, RmcpStatusCode: 0x0f, ManagedSystemSessionID: c.remote}
	_, _ = c.conn.Write(append(rmcpHeader[:4:4], packet{kind: payloadRAKP3, payload: req.Pack()}.encode()...))
}

// setup exchanges one pair of messages outside of the session.
func (c *session) setup(ctx context.Context, kind byte, payload []byte, want byte, take func([]byte) bool) error {
	raw := append(rmcpHeader[:4:4], packet{kind: kind, payload: payload}.encode()...)
	return c.ask(ctx, func() ([]byte, error) { return raw, nil }, func(b []byte) (bool, error) {
		p, _, _, err := parsePacket(b)
		return err == nil && p.kind == want && p.flags == 0 && p.session == 0 && take(p.payload), nil
	})
}

// send sends a command and returns the data of its answer.
func (c *session) send(ctx context.Context, cmd command, data ...byte) ([]byte, error) {
	c.seq = (c.seq + 1) & 0x3f
	m := message{netFn: cmd.netFn, cmd: cmd.id, seq: c.seq, data: data}
	var answer message
	err := c.ask(ctx, func() ([]byte, error) { return c.seal(m.request()) }, func(b []byte) (bool, error) {
		plain, err := c.unseal(b)
		if err != nil {
			return false, nil // not of this session, or not whole
		}
		answer, err = parseAnswer(plain)
		return err == nil && answer.netFn == m.netFn && answer.cmd == m.cmd && answer.seq == m.seq, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd.name, err)
	}
	if answer.code != 0 {
		return nil, &completionError{cmd.name, answer.code}
	}
	return append([]byte(nil), answer.data...), nil
}

// end closes the session (section 22.19). One packet must do: the controller
// forgets a session by itself after a while.
func (c *session) end(ctx context.Context) error {
	l := *c.link
	l.t.tries = 1
	short := *c
	short.link = &l
	_, err := short.send(ctx, cmdCloseSession, binary.LittleEndian.AppendUint32(nil, c.remote)...)
	return err
}
