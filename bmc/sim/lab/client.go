//go:build linux

package lab

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// Lease plugs a computer with a MAC address into the provisioning network and
// has it ask for an address, which it keeps without using it. It is none of
// ours: BusyBox's udhcpc asks.
func (l *Lab) Lease(mac string) (netip.Addr, error) {
	l.t.Helper()
	l.taps++
	name := fmt.Sprintf("veth%d", l.taps)
	l.inside("link", "add", name, "address", mac, "type", "veth", "peer", "name", name+"p")
	l.inside("link", "set", name, "up")
	l.inside("link", "set", name+"p", "master", Bridge, "up")
	ctx, cancel := context.WithTimeout(l.t.Context(), 30*time.Second)
	defer cancel()
	out, err := l.Command(ctx, "udhcpc", "-i", name, "-f", "-n", "-q", "-t", "5", "-T", "1", "-s", "/bin/true").CombinedOutput()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("udhcpc (Debian package udhcpc): %w: %s", err, strings.TrimSpace(string(out)))
	}
	m := leaseOf.FindSubmatch(out)
	if m == nil {
		return netip.Addr{}, fmt.Errorf("udhcpc names no lease: %s", out)
	}
	return netip.ParseAddr(string(m[1]))
}

var leaseOf = regexp.MustCompile(`lease of ([0-9.]+) obtained`)
