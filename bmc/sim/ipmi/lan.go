package ipmi

import "net"

// getLAN is Get LAN Configuration Parameters (section 23.2).
func (s *Server) getLAN(c call) ([]byte, byte) {
	if !s.isLAN(c.data[0]) {
		return nil, codeField
	}
	const revision, only = 0x11, 0x80
	if c.data[0]&only != 0 {
		return []byte{revision}, 0
	}
	value := s.lanParameter(c.data[1])
	if value == nil {
		return nil, codeNoParameter
	}
	return append([]byte{revision}, value...), 0
}

// lanParameter is a parameter's value (table 23-4), nil when there is none.
func (s *Server) lanParameter(number byte) []byte {
	const md5, static = 1 << authMD5, 1
	switch number {
	case 0: // no change in progress
		return []byte{0}
	case 1:
		return []byte{md5}
	case 2:
		return []byte{md5, md5, md5, md5, 0}
	case 3:
		return s.address()
	case 4:
		return []byte{static}
	case 5:
		return s.macBytes()
	case 6:
		return []byte{255, 255, 255, 0}
	case 7: // header: time to live, flags, precedence
		return []byte{0x40, 0x40, 0x10}
	case 8:
		port := s.port()
		return []byte{byte(port), byte(port >> 8)}
	case 10:
		return []byte{0x02}
	case 12, 14:
		return []byte{0, 0, 0, 0}
	case 13, 15:
		return []byte{0, 0, 0, 0, 0, 0}
	case 16:
		return append([]byte("public"), make([]byte, 12)...)
	case 20, 21:
		return []byte{0, 0}[:22-number]
	case 22:
		return []byte{byte(len(suites))}
	case 23:
		b := []byte{0}
		for _, w := range suites {
			b = append(b, w.id)
		}
		return append(b, make([]byte, 16-len(suites))...)
	case 24: // administrator for each
		return append([]byte{0, 0x44}, make([]byte, 7)...)
	}
	return nil
}

// address is where the socket is bound.
func (s *Server) address() []byte {
	if a, ok := s.local(); ok {
		if ip := a.IP.To4(); ip != nil {
			return ip
		}
	}
	return []byte{0, 0, 0, 0}
}

func (s *Server) port() int {
	a, _ := s.local()
	return a.Port
}

func (s *Server) local() (net.UDPAddr, bool) {
	if s.conn == nil {
		return net.UDPAddr{}, false
	}
	a, ok := s.conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return net.UDPAddr{}, false
	}
	return *a, true
}
