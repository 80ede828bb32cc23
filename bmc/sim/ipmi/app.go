package ipmi

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"
)

// makers are the enterprise numbers of manufacturers, by the words that their
// names begin with.
var makers = []struct {
	name   string
	number uint32
}{
	{"dell", 674},
	{"hpe", 47196},
	{"hewlett", 47196},
	{"hp", 11},
	{"lenovo", 19046},
	{"supermicro", supermicro},
	{"super micro", supermicro},
	{"fujitsu", 10368},
	{"intel", 343},
	{"cisco", 5771},
	{"inspur", 6569},
	{"huawei", 2011},
	{"gigabyte", 15370},
	{"giga-byte", 15370},
	{"asrock", 49622},
}

const supermicro = 10876

func (s *Server) maker() uint32 {
	if s.c.Flaws.On("I-02") {
		return supermicro
	}
	name := strings.ToLower(s.c.Machine.Spec().Manufacturer)
	for _, m := range makers {
		if strings.HasPrefix(name, m.name) {
			return m.number
		}
	}
	return 21317 // ASPEED, whose chips most of the others are
}

// getDeviceID is Get Device ID (section 20.1).
func (s *Server) getDeviceID(call) ([]byte, byte) {
	const sensors, sdrs, sel, fru = 0x01, 0x02, 0x04, 0x08
	maker := s.maker()
	return []byte{
		0x20, 0x01, 0x01, 0x00, // firmware 1.00
		0x02, sensors | sdrs | sel | fru, // IPMI 2.0
		byte(maker), byte(maker >> 8), byte(maker >> 16), 0x01, 0x00,
		0, 0, 0, 0,
	}, 0
}

// reset is Cold Reset and Warm Reset: all sessions end, and so no answer
// comes.
func (s *Server) reset(call) ([]byte, byte) {
	s.sessions = nil
	return nil, 0
}

func (s *Server) getSelfTest(call) ([]byte, byte) { return []byte{0x55, 0}, 0 }

// getGUID is Get System GUID (section 22.14).
func (s *Server) getGUID(call) ([]byte, byte) {
	g := s.guid()
	return g[:], 0
}

// guid is the machine's UUID as most controllers send it: with the byte order
// of SMBIOS, not the specification's.
func (s *Server) guid() [16]byte {
	u, err := uuid.Parse(s.c.Machine.Spec().UUID)
	if err != nil {
		return [16]byte{}
	}
	g := [16]byte{u[3], u[2], u[1], u[0], u[5], u[4], u[7], u[6]}
	copy(g[8:], u[8:])
	return g
}

// getCapabilities is Get Channel Authentication Capabilities (section 22.13).
// A controller may fail to say that it speaks IPMI 2.0 (I-09).
func (s *Server) getCapabilities(c call) ([]byte, byte) {
	if !s.isLAN(c.data[0]) {
		return nil, codeField
	}
	const md5, extended, named, key = 1 << authMD5, 0x80, 0x04, 0x20
	auth, status, versions := byte(extended), byte(named), byte(0x02)
	if !s.o.NoLegacy {
		auth |= md5
		versions |= 0x01
	}
	if len(s.o.KG) > 0 {
		status |= key
	}
	if s.c.Flaws.On("I-09") {
		versions &^= 0x02
	}
	return []byte{s.channel(), auth, status, versions, 0, 0, 0, 0}, 0
}

// channel is the number of the LAN channel: 1, if it is not another (I-11).
func (s *Server) channel() byte {
	if s.c.Flaws.On("I-11") {
		return 8
	}
	return 1
}

// isLAN reports whether a channel number means the LAN: its own, or 0Eh, which
// is whichever the command came by.
func (s *Server) isLAN(b byte) bool { return b&0x0f == 0x0e || b&0x0f == s.channel() }

// setPrivilege is Set Session Privilege Level (section 22.18).
func (s *Server) setPrivilege(c call) ([]byte, byte) {
	switch level := c.data[0] & 0x0f; {
	case level > c.x.limit || level == 1:
		return nil, 0x81 // exceeds the limit
	case level != levelNone:
		c.x.level = level
	}
	return []byte{c.x.level}, 0
}

// closeSession is Close Session (section 22.19).
func (s *Server) closeSession(c call) ([]byte, byte) {
	id := binary.LittleEndian.Uint32(c.data)
	if x := s.sessions[id]; x == nil || !x.open || id != c.x.id && c.x.level < levelAdmin {
		return nil, 0x87 // no such session
	}
	delete(s.sessions, id)
	return nil, 0
}

// getSessionInfo is Get Session Info (section 22.20), of the client's own.
func (s *Server) getSessionInfo(c call) ([]byte, byte) {
	if c.data[0] != 0 {
		return nil, codeField
	}
	version := byte(0)
	if c.x.suite != nil {
		version = 0x10
	}
	return []byte{1, byte(min(s.o.Sessions, 63)), byte(min(s.sessions.count(true), 63)), userID, c.x.level, version | s.channel()}, 0
}

// getSuites is Get Channel Cipher Suites (section 22.15): 16 bytes of the list
// at a time. A controller may not know the command (I-05).
func (s *Server) getSuites(c call) ([]byte, byte) {
	switch {
	case s.c.Flaws.On("I-05"):
		return nil, codeUnknown
	case !s.isLAN(c.data[0]):
		return nil, codeField
	}
	var list []byte
	for _, w := range suites {
		list = append(list, 0xc0, w.id, w.auth, 0x40|w.integrity, 0x80|w.crypt)
	}
	from := min(int(c.data[2]&0x3f)*16, len(list))
	return append([]byte{s.channel()}, list[from:min(from+16, len(list))]...), 0
}

// macBytes is the controller's hardware address: by default that of the
// machine's first card, marked as locally administered.
func (s *Server) macBytes() []byte {
	if len(s.o.MAC) == 6 {
		return s.o.MAC
	}
	mac := make([]byte, 6)
	if nics := s.c.Machine.Spec().NICs; len(nics) > 0 {
		if b, err := hex.DecodeString(strings.ReplaceAll(nics[0].MAC, ":", "")); err == nil && len(b) == 6 {
			copy(mac, b)
		}
	}
	mac[0] |= 0x02
	mac[5] ^= 0x80
	return mac
}
