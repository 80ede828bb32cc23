package boot

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
)

// A Network gets addresses for all wired links and keeps them. It never gives
// up: a cable may be plugged in, a switch port may begin to forward a minute
// after its link came up (quirks D-07, D-08).
type Network struct {
	bootMAC    net.HardwareAddr
	say        func(string, ...any)
	dns        resolver
	lldp       bool // listen for it
	neighbours neighbours

	mu      sync.Mutex
	links   map[int]*link // by interface index
	changed chan struct{} // closed and replaced when an address came or went
}

func newNetwork(bootMAC net.HardwareAddr, lldp bool, say func(string, ...any)) *Network {
	return &Network{
		bootMAC: bootMAC, say: say, lldp: lldp, neighbours: neighbours{heard: map[string][][2]any{}}, dns: resolver{path: "/etc/resolv.conf", servers: map[int][]net.IP{}},
		links: map[int]*link{}, changed: make(chan struct{}),
	}
}

// BootMAC is the card that the machine booted from, or nil.
func (n *Network) BootMAC() net.HardwareAddr { return n.bootMAC }

// run follows the kernel's links until ctx ends: each wired one gets a
// goroutine.
func (n *Network) run(ctx context.Context) error {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	updates := make(chan netlink.LinkUpdate, 64)
	done := make(chan struct{})
	defer close(done)
	if err := netlink.LinkSubscribeWithOptions(updates, done, netlink.LinkSubscribeOptions{ListExisting: true}); err != nil {
		return fmt.Errorf("watch network links: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case u, ok := <-updates:
			if !ok {
				return fmt.Errorf("watch network links: the kernel closed the socket")
			}
			if l := n.update(u); l != nil {
				tasks.Go(func() { n.serve(ctx, l) })
				if n.lldp {
					tasks.Go(func() { n.listenLLDP(ctx, l) })
				}
			}
		}
	}
}

// update notes a link's state, and returns it if it is new.
func (n *Network) update(u netlink.LinkUpdate) *link {
	attrs := u.Attrs()
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.links[attrs.Index]; l != nil {
		l.set(attrs)
		return nil
	}
	if attrs.Name == "lo" {
		_ = netlink.LinkSetUp(u.Link) // the agent needs no loopback; it is for whoever debugs it
		return nil
	}
	if !wired(u.Link) {
		return nil
	}
	l := &link{
		index: attrs.Index, name: attrs.Name, mac: attrs.HardwareAddr,
		boot: bytes.Equal(attrs.HardwareAddr, n.bootMAC), up: make(chan struct{}, 1),
	}
	l.set(attrs)
	n.links[attrs.Index] = l
	return l
}

// settleFor is how long the link that the machine booted from may take longer
// than another until the other will do.
const settleFor = 20 * time.Second

// cableHint is when to say that no cable seems to be plugged in.
const cableHint = 15 * time.Second

// Wait waits until there is an address: on the link that the machine booted
// from, if that is known and does not take much longer than another.
func (n *Network) Wait(ctx context.Context) error {
	start, hint := time.Now(), time.After(cableHint)
	var first time.Time // when another link than the boot link had an address
	for {
		boot, any, carriers, changed := n.state()
		if boot || any && n.bootMAC == nil {
			return nil
		}
		var late <-chan time.Time
		if any {
			if first.IsZero() {
				first = time.Now()
			}
			if time.Since(first) >= settleFor {
				n.say("network: %v, which this machine booted from, has no address; going on with another link", n.bootMAC)
				return nil
			}
			late = time.After(settleFor - time.Since(first))
		}
		select {
		case <-changed:
		case <-late:
		case <-hint:
			hint = time.After(4 * cableHint)
			n.say("network: no address after %.0f s, %d link(s) have carrier; check cables, switch ports and the DHCP server", time.Since(start).Seconds(), carriers)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// state says whether the boot link and whether any link has an address.
func (n *Network) state() (boot, any bool, carriers int, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		any = any || l.address != nil
		boot = boot || l.boot && l.address != nil
		if l.carrier {
			carriers++
		}
	}
	return boot, any, carriers, n.changed
}

// setAddress notes that a link got or lost its address.
func (n *Network) setAddress(l *link, address *net.IPNet) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l.address = address
	close(n.changed)
	n.changed = make(chan struct{})
}
