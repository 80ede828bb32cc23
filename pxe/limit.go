package pxe

import (
	"net"
	"net/netip"
	"sync"
)

// A Limit bounds the transfers that run at one time: all together, each
// source's, and those of all sources that have no lease from us, so that a
// flood of forged sources leaves room for machines that boot.
type Limit struct {
	Total     int
	PerSource int
	Strangers int

	mu        sync.Mutex
	total     int
	strangers int
	by        map[netip.Addr]int
}

// Take asks for a place; known says that the source has a lease. If it is
// granted, the caller calls release when the transfer ends.
func (l *Limit) Take(source netip.Addr, known bool) (release func(), ok bool) {
	source = source.Unmap()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.Total || l.by[source] >= l.PerSource || !known && l.strangers >= l.Strangers {
		return nil, false
	}
	if l.by == nil {
		l.by = map[netip.Addr]int{}
	}
	l.total++
	l.by[source]++
	if !known {
		l.strangers++
	}
	return sync.OnceFunc(func() { l.give(source, known) }), true
}

func (l *Limit) give(source netip.Addr, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if !known {
		l.strangers--
	}
	if l.by[source]--; l.by[source] == 0 {
		delete(l.by, source)
	}
}

// An Owner finds the MAC address of the machine that has an IP address; the
// lease table is one.
type Owner func(netip.Addr) (net.HardwareAddr, bool)
