package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// blockFile in the data directory says which block of the simulated network
// was ours, so that machines that go on running find their addresses again.
const blockFile = "wire.block"

// blockPort is where a block is claimed: nothing is ever sent there.
const blockPort = 9998

// A block is 65,534 addresses of the simulated network, 127.N.0.1 to
// 127.N.255.254, that one appliance gives. Several appliances on one host
// take one each, since the addresses of loopback are the same for all.
type block struct {
	n     byte
	claim net.PacketConn // bound to the last address of the block, while it is ours
}

const (
	firstBlock = 64 // 127.64.0.0/10
	lastBlock  = 127
)

func (b block) first() netip.Addr { return netip.AddrFrom4([4]byte{127, b.n, 0, 1}) }
func (b block) last() netip.Addr  { return netip.AddrFrom4([4]byte{127, b.n, 255, 254}) }

// claimBlock takes the block that was ours before, or the first that is free.
// The system frees it when the process ends, however that comes about.
func claimBlock(file string) (b block, err error) {
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b, fmt.Errorf("read which addresses simulated machines had: %w", err)
	}
	if n, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 8); err == nil && n >= firstBlock && n <= lastBlock {
		if b, err = claimed(byte(n)); err == nil {
			return b, nil
		}
	}
	for n := firstBlock; n <= lastBlock; n++ {
		if b, err = claimed(byte(n)); err == nil {
			return b, os.WriteFile(file, fmt.Appendln(nil, n), 0o600)
		}
	}
	return b, fmt.Errorf("find free addresses for simulated machines: %w; other appliances on this host have all %d blocks of 127.64.0.0/10: stop one, or set dhcp.range", err, lastBlock-firstBlock+1)
}

func claimed(n byte) (block, error) {
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, n, 255, 255}), blockPort)
	conn, err := net.ListenPacket("udp4", at.String())
	return block{n, conn}, err
}
