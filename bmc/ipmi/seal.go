package ipmi

import (
	"crypto/aes"
	"crypto/rand"

	"github.com/bougou/go-ipmi/pkg/crypto"
)

// seal makes the datagram of a command: encrypted (section 13.29) and signed
// (section 13.28.4) under the next number.
func (c *session) seal(plain []byte) ([]byte, error) {
	var iv [aes.BlockSize]byte
	_, _ = rand.Read(iv[:])
	payload, err := crypto.EncryptAESPayload(plain, c.k2, iv[:])
	if err != nil {
		return nil, err
	}
	c.sent++
	b := packet{kind: payloadIPMI, flags: flagEncrypted | flagSigned, session: c.remote, seq: c.sent, payload: payload}.encode()
	pad := (4 - (len(b)+2)%4) % 4
	for range pad {
		b = append(b, 0xff)
	}
	b = append(b, byte(pad), 7)
	signature, err := crypto.SessionIntegrityAuthCode(c.suite.integrity, b, c.k1, "")
	if err != nil {
		return nil, err
	}
	return append(append(rmcpHeader[:4:4], b...), signature...), nil
}

// unseal checks that a datagram is of this session, signed, encrypted and
// new, and returns its message.
func (c *session) unseal(raw []byte) ([]byte, error) {
	p, body, trailer, err := parsePacket(raw)
	if err != nil {
		return nil, err
	}
	n := len(body) - c.suite.signature
	if p.kind != payloadIPMI || p.flags != flagEncrypted|flagSigned || p.session != c.local || len(trailer) < c.suite.signature+2 {
		return nil, errMalformed
	}
	want, err := crypto.SessionIntegrityAuthCode(c.suite.integrity, body[:n], c.k1, "")
	if err != nil {
		return nil, err
	}
	if !crypto.Equal(want, body[n:]) || p.seq <= c.received {
		return nil, errMalformed
	}
	if m := len(p.payload); m < 2*aes.BlockSize || m%aes.BlockSize != 0 {
		return nil, errMalformed
	}
	plain, err := crypto.DecryptAESPayload(p.payload, c.k2)
	if err != nil {
		return nil, err
	}
	c.received = p.seq
	return plain, nil
}
