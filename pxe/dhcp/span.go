package dhcp

import (
	"encoding/binary"
	"hash/fnv"
	"iter"
	"net/netip"
)

// A span is a range of addresses as numbers, end excluded.
type span struct{ from, to uint32 }

func (s span) contains(ip netip.Addr) bool {
	n := number(ip)
	return ip.Is4() && s.from <= n && n < s.to
}

func (s span) size() int { return int(s.to - s.from) }

// from key on yields each address once, beginning where the hash of key
// points: a client tends to the same address even when its record is lost.
func (s span) starting(key string) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		n := s.to - s.from
		if n == 0 {
			return
		}
		h := fnv.New32a()
		h.Write([]byte(key))
		start := h.Sum32() % n
		for i := range n {
			if !yield(address(s.from + (start+i)%n)) {
				return
			}
		}
	}
}

func number(ip netip.Addr) uint32 {
	if !ip.Is4() {
		return 0
	}
	b := ip.As4()
	return binary.BigEndian.Uint32(b[:])
}

func address(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}
