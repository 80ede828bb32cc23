package ipmi

import (
	"bytes"
	"encoding/binary"
)

// Packets, as sections 13.1 to 13.8 lay them out.
const (
	classASF  = 0x06
	classIPMI = 0x07

	formatPlus = 0x06 // session header of RMCP+; else it is that of IPMI 1.5

	payloadIPMI         = 0x00
	payloadOpenRequest  = 0x10
	payloadOpenResponse = 0x11
	payloadRAKP1        = 0x12
	payloadRAKP2        = 0x13
	payloadRAKP3        = 0x14
	payloadRAKP4        = 0x15

	flagEncrypted = 0x80
	flagSigned    = 0x40

	addressBMC = 0x20
)

// rmcpHeader is version 6, no acknowledgement wanted, class IPMI.
var rmcpHeader = [4]byte{6, 0, 0xff, classIPMI}

// pong answers a presence ping (section 13.2.3); it tells whether IPMI is
// spoken.
func pong(ping []byte, ipmi bool) []byte {
	const presencePing, presencePong = 0x80, 0x40
	asf := []byte{0, 0, 0x11, 0xbe} // ASF's enterprise number, 4542
	if len(ping) < 12 || !bytes.Equal(ping[4:8], asf) || ping[8] != presencePing {
		return nil
	}
	b := append([]byte{6, 0, 0xff, classASF}, asf...)
	b = append(b, presencePong, ping[9], 0, 16)
	b = append(b, asf...)
	entities := byte(0x01) // ASF 1.0
	if ipmi {
		entities |= 0x80
	}
	return append(b, 0, 0, 0, 0, entities, 0, 0, 0, 0, 0, 0, 0)
}

// A request is a command (section 13.8).
type request struct {
	netFn, cmd byte
	from       byte // address
	seq        byte // number and LUN, as they came
	data       []byte
}

// parseRequest decodes a command for this controller.
func parseRequest(b []byte) (request, bool) {
	if len(b) < 7 || b[0] != addressBMC || sum(b[:2]) != b[2] || sum(b[3:len(b)-1]) != b[len(b)-1] {
		return request{}, false
	}
	return request{netFn: b[1] >> 2, from: b[3], seq: b[4], cmd: b[5], data: b[6 : len(b)-1]}, true
}

// answer encodes the answer to a command.
func (r request) answer(code byte, data []byte) []byte {
	b := make([]byte, 0, 8+len(data))
	b = append(b, r.from, (r.netFn|1)<<2|r.seq&3)
	b = append(b, sum(b))
	b = append(b, addressBMC, r.seq, r.cmd, code)
	b = append(b, data...)
	return append(b, sum(b[3:]))
}

// sum makes the sum of all bytes and itself 0.
func sum(b []byte) byte {
	var s byte
	for _, x := range b {
		s += x
	}
	return -s
}

// A packet is an RMCP+ packet.
type packet struct {
	kind    byte // payload type
	flags   byte
	session uint32
	seq     uint32
	payload []byte
	body    []byte // all behind the RMCP header
	trailer []byte // what follows the payload
}

// parsePacket decodes a datagram in the format of RMCP+.
func parsePacket(raw []byte) (packet, bool) {
	const fixed = 12
	if len(raw) < 4+fixed {
		return packet{}, false
	}
	b := raw[4:]
	n := int(binary.LittleEndian.Uint16(b[10:]))
	if len(b) < fixed+n {
		return packet{}, false
	}
	return packet{
		kind: b[1] & 0x3f, flags: b[1] & (flagEncrypted | flagSigned),
		session: binary.LittleEndian.Uint32(b[2:]), seq: binary.LittleEndian.Uint32(b[6:]),
		payload: b[fixed : fixed+n], body: b, trailer: b[fixed+n:],
	}, true
}

// encode returns the session header and the payload.
func (p packet) encode() []byte {
	b := make([]byte, 0, 16+len(p.payload)+20)
	b = append(b, formatPlus, p.kind|p.flags)
	b = binary.LittleEndian.AppendUint32(b, p.session)
	b = binary.LittleEndian.AppendUint32(b, p.seq)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(p.payload)))
	return append(b, p.payload...)
}

// datagram returns the packet with the RMCP header.
func (p packet) datagram() []byte { return append(rmcpHeader[:4:4], p.encode()...) }

// A legacyPacket is a packet of IPMI 1.5 (section 13.6).
type legacyPacket struct {
	auth         byte // authentication type
	seq, session uint32
	code         []byte // 16 bytes, nil when auth is 0
	message      []byte
}

func parseLegacy(raw []byte) (legacyPacket, bool) {
	if len(raw) < 14 {
		return legacyPacket{}, false
	}
	p := legacyPacket{auth: raw[4], seq: binary.LittleEndian.Uint32(raw[5:]), session: binary.LittleEndian.Uint32(raw[9:])}
	b := raw[13:]
	if p.auth != 0 {
		if len(b) < 17 {
			return legacyPacket{}, false
		}
		p.code, b = b[:16], b[16:]
	}
	n := int(b[0])
	if len(b) < 1+n {
		return legacyPacket{}, false
	}
	p.message = b[1 : 1+n]
	return p, true
}

func (p legacyPacket) datagram() []byte {
	b := append(rmcpHeader[:4:4], p.auth)
	b = binary.LittleEndian.AppendUint32(b, p.seq)
	b = binary.LittleEndian.AppendUint32(b, p.session)
	b = append(b, p.code...)
	b = append(b, byte(len(p.message)))
	return append(b, p.message...)
}
