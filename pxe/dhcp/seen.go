package dhcp

import (
	"net"
	"net/netip"
	"sync"
)

const maxSeen = 4096

// seen holds the addresses that another server gave, as far as we have heard.
type seen struct {
	mu sync.Mutex
	by map[netip.Addr]net.HardwareAddr
}

func (s *seen) learn(ip netip.Addr, mac net.HardwareAddr) {
	if !ip.IsValid() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil || len(s.by) >= maxSeen {
		s.by = map[netip.Addr]net.HardwareAddr{} // whoever still boots is learned again
	}
	s.by[ip] = append(net.HardwareAddr(nil), mac...)
}

func (s *seen) find(ip netip.Addr) (net.HardwareAddr, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mac, ok := s.by[ip]
	return mac, ok
}
