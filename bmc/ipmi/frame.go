package ipmi

import (
	"encoding/binary"
	"errors"
)

// Packets, as sections 13.1, 13.6 and 13.8 of the IPMI specification 2.0 lay
// them out. All that comes from the network is checked for length before it
// is looked at.

const (
	formatLegacy = 0x00 // session header of IPMI 1.5, without authentication
	formatPlus   = 0x06 // session header of RMCP+

	payloadIPMI         = 0x00
	payloadOpenRequest  = 0x10
	payloadOpenResponse = 0x11
	payloadRAKP1        = 0x12
	payloadRAKP2        = 0x13
	payloadRAKP3        = 0x14
	payloadRAKP4        = 0x15

	flagEncrypted = 0x80
	flagSigned    = 0x40

	addressBMC     = 0x20
	addressConsole = 0x81
)

var errMalformed = errors.New("malformed packet")

// rmcpHeader is version 6, no acknowledgement wanted, class IPMI.
var rmcpHeader = []byte{6, 0, 0xff, 7}

// A message is one command or its answer (section 13.8).
type message struct {
	netFn, cmd, seq byte
	code            byte // completion code, of answers
	data            []byte
}

// request encodes a command.
func (m message) request() []byte {
	b := []byte{addressBMC, m.netFn << 2}
	b = append(b, checksum(b))
	tail := append([]byte{addressConsole, m.seq << 2, m.cmd}, m.data...)
	return append(append(b, tail...), checksum(tail))
}

// parseAnswer decodes an answer. Whom it is addressed to is not looked at:
// controllers differ about that.
func parseAnswer(b []byte) (message, error) {
	if len(b) < 8 || checksum(b[:2]) != b[2] || checksum(b[3:len(b)-1]) != b[len(b)-1] {
		return message{}, errMalformed
	}
	return message{netFn: b[1]>>2 - 1, seq: b[4] >> 2, cmd: b[5], code: b[6], data: b[7 : len(b)-1]}, nil
}

// checksum makes the sum of all bytes and itself 0.
func checksum(b []byte) byte {
	var sum byte
	for _, x := range b {
		sum += x
	}
	return -sum
}

// A packet is an RMCP+ packet, without its signature.
type packet struct {
	kind    byte // payload type
	flags   byte
	session uint32
	seq     uint32
	payload []byte
}

// encode returns the session header and the payload.
func (p packet) encode() []byte {
	b := []byte{formatPlus, p.kind | p.flags}
	b = binary.LittleEndian.AppendUint32(b, p.session)
	b = binary.LittleEndian.AppendUint32(b, p.seq)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(p.payload)))
	return append(b, p.payload...)
}

// parsePacket decodes a datagram that holds an RMCP+ packet. The second value
// is all that follows the RMCP header, and the third what follows the payload.
func parsePacket(b []byte) (p packet, body, trailer []byte, err error) {
	const fixed = 12
	if len(b) < 4+fixed || b[0] != 6 || b[3] != 7 || b[4] != formatPlus {
		return packet{}, nil, nil, errMalformed
	}
	body = b[4:]
	p = packet{
		kind: body[1] & 0x3f, flags: body[1] & (flagEncrypted | flagSigned),
		session: binary.LittleEndian.Uint32(body[2:]), seq: binary.LittleEndian.Uint32(body[6:]),
	}
	n := int(binary.LittleEndian.Uint16(body[10:]))
	if len(body) < fixed+n {
		return packet{}, nil, nil, errMalformed
	}
	p.payload = body[fixed : fixed+n]
	return p, body, body[fixed+n:], nil
}

// legacyPacket encodes a command outside of any session in IPMI 1.5's format.
func legacyPacket(m message) []byte {
	raw := m.request()
	b := append([]byte{}, rmcpHeader...)
	b = append(b, formatLegacy, 0, 0, 0, 0, 0, 0, 0, 0, byte(len(raw)))
	return append(b, raw...)
}

// parseLegacy decodes the answer to a legacyPacket.
func parseLegacy(b []byte) (message, error) {
	const fixed = 14
	if len(b) < fixed || b[0] != 6 || b[3] != 7 || b[4] != formatLegacy {
		return message{}, errMalformed
	}
	n := int(b[13])
	if len(b) < fixed+n {
		return message{}, errMalformed
	}
	return parseAnswer(b[fixed : fixed+n])
}
