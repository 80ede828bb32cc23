package ipmi

// userID is the number of the one user that there is; 1 is the anonymous one.
const userID = 2

// getChannelAccess is Get Channel Access (section 22.23).
func (s *Server) getChannelAccess(c call) ([]byte, byte) {
	if !s.isLAN(c.data[0]) {
		return nil, codeField
	}
	const always = 0x02 // available at all times; authentication per message
	return []byte{always, levelAdmin}, 0
}

// getChannelInfo is Get Channel Info (section 22.24).
func (s *Server) getChannelInfo(c call) ([]byte, byte) {
	const lan, ipmb, multi, ipmi = 0x04, 0x01, 0x80, 7154
	n := byte(min(s.sessions.count(true), 63))
	switch {
	case s.isLAN(c.data[0]):
		return []byte{s.channel(), lan, ipmb, multi | n, ipmi & 0xff, ipmi >> 8, 0, 0, 0}, 0
	case c.data[0]&0x0f == 0x0f: // the system interface
		return []byte{0x0f, 0x0c, 0x05, 0, ipmi & 0xff, ipmi >> 8, 0, 0, 0}, 0
	}
	return nil, codeField
}

// getUserAccess is Get User Access (section 22.27).
func (s *Server) getUserAccess(c call) ([]byte, byte) {
	if !s.isLAN(c.data[0]) {
		return nil, codeField
	}
	const users, enabled, disabled, messaging, none = 10, 0x40, 0x80, 0x10, 0x0f
	switch id := c.data[1] & 0x3f; {
	case id == 0 || id > users:
		return nil, codeRange
	case id == s.userID():
		return []byte{users, enabled | 1, 1, messaging | s.limit()}, 0
	}
	return []byte{users, disabled | 1, 1, none}, 0
}

// getUserName is Get User Name (section 22.29).
func (s *Server) getUserName(c call) ([]byte, byte) {
	name := make([]byte, 16)
	switch id := c.data[0] & 0x3f; {
	case id == s.userID():
		copy(name, s.o.User)
	case id == 0 || id > 10:
		return nil, codeRange
	}
	return name, 0
}

func (s *Server) userID() byte {
	if s.o.User == "" {
		return 1
	}
	return userID
}
