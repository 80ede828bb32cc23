package rack

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// Controllers are on 127.32.0.0/16. A rack begins at a block of 256 addresses
// and has 250 of each, so that an address is easily told from a machine's
// number. Racks that choose for themselves begin 16 blocks apart.
const (
	perBlock   = 250
	blockStep  = 16
	blockCount = 256
)

// controllers is the network of all controllers of a host.
var controllers = netip.MustParsePrefix("127.32.0.0/16")

// address is that of the controller of a machine.
func address(first netip.Addr, index int) netip.Addr {
	a := first.As4()
	n := int(a[2]) + index/perBlock
	return netip.AddrFrom4([4]byte{a[0], a[1] + byte(n/blockCount), byte(n), byte(1 + index%perBlock)})
}

// indexOf is the other direction; -1 for an address before the first.
func indexOf(first, a netip.Addr) int {
	if !a.Is4() || a.Less(first) {
		return -1
	}
	f, b := first.As4(), a.As4()
	if b[3] < 1 || b[3] > perBlock {
		return -1
	}
	return ((int(b[1])-int(f[1]))*blockCount+int(b[2])-int(f[2]))*perBlock + int(b[3]) - 1
}

// claimPort is where a rack claims a block of addresses, at its last address:
// nothing is ever sent there.
const claimPort = 6229

// freeNetwork finds where a rack of n machines may begin: the first place where
// no other rack of this host has an address. It claims the blocks, so that of
// two racks that begin at a time each finds its own.
func freeNetwork(n int) (first netip.Addr, claims []io.Closer, err error) {
	base := controllers.Addr().As4()
	for b := 0; b+blocksOf(n) <= blockCount; b += blockStep {
		first = netip.AddrFrom4([4]byte{base[0], base[1], byte(b), 0})
		claims, free := claimNetwork(first, n)
		for i := 0; i < blocksOf(n) && free; i++ {
			free = isFree(address(first, i*perBlock))
		}
		if free {
			return first, claims, nil
		}
		closeAll(claims)
	}
	return netip.Addr{}, nil, fmt.Errorf("find addresses for the controllers of %d machines in %s: all are taken; end another rack of this host", n, controllers)
}

// blocksOf is how many blocks n machines need.
func blocksOf(n int) int { return max(1, (n+perBlock-1)/perBlock) }

// claimNetwork claims the blocks of n machines, as far as nobody else has them.
// The system frees them when the process ends.
func claimNetwork(first netip.Addr, n int) (claims []io.Closer, all bool) {
	all = true
	for i := range blocksOf(n) {
		a := address(first, i*perBlock).As4()
		a[3] = 255
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(a), claimPort)))
		if err != nil {
			all = false
			continue
		}
		claims = append(claims, c)
	}
	return claims, all
}

func closeAll(cs []io.Closer) {
	for _, c := range cs {
		_ = c.Close() // nothing was written to it
	}
}

// isFree reports whether no controller is at an address.
func isFree(a netip.Addr) bool {
	t, errT := net.Listen("tcp4", netip.AddrPortFrom(a, redfishPort).String())
	if errT == nil {
		_ = t.Close() // it was only to see
	}
	u, errU := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, ipmiPort)))
	if errU == nil {
		_ = u.Close()
	}
	return errors.Join(errT, errU) == nil
}

// checkNetwork refuses a network that controllers cannot be in.
func checkNetwork(p netip.Prefix) error {
	if p.IsValid() && (!p.Addr().Is4() || !p.Addr().IsLoopback() || p.Masked() != p || p.Bits() > 24) {
		return fmt.Errorf("network %s: controllers are on loopback, on a network such as 127.32.16.0/24", p)
	}
	return nil
}
