package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A link is a wired network card.
type link struct {
	index int
	name  string
	mac   net.HardwareAddr
	boot  bool          // the machine booted from it
	up    chan struct{} // tells that it got carrier

	// Guarded by Network.mu.
	carrier bool
	address *net.IPNet
}

// set notes the link's state.
func (l *link) set(a *netlink.LinkAttrs) {
	had := l.carrier
	l.carrier = a.RawFlags&unix.IFF_LOWER_UP != 0
	if l.carrier && !had {
		select {
		case l.up <- struct{}{}:
		default:
		}
	}
}

// wired tells Ethernet cards from the kernel's own devices and from wireless
// ones.
func wired(l netlink.Link) bool {
	a := l.Attrs()
	dir := filepath.Join("/sys/class/net", a.Name)
	_, noDevice := os.Stat(filepath.Join(dir, "device"))
	_, noWireless := os.Stat(filepath.Join(dir, "wireless"))
	return a.EncapType == "ether" && len(a.HardwareAddr) == 6 && noDevice == nil && noWireless != nil
}

// serve brings a link up and keeps an address on it until ctx ends.
func (n *Network) serve(ctx context.Context, l *link) {
	for {
		err := setUp(l.index)
		if err == nil {
			break
		}
		n.say("%s: %v", l.name, err)
		if pause(ctx, 30*time.Second); ctx.Err() != nil {
			return
		}
	}
	select {
	case <-l.up:
	case <-ctx.Done():
		return
	}
	n.say("%s: %v has carrier, asking for an address", l.name, l.mac)
	for attempt := 0; ctx.Err() == nil; attempt++ {
		if err := n.hold(ctx, l); err != nil && ctx.Err() == nil && attempt%10 == 0 {
			n.say("%s: %v; trying again", l.name, err)
		}
		pause(ctx, retryPause(attempt))
	}
}

// setUp brings a link up. Cards that load firmware then take their time.
func setUp(index int) error {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return fmt.Errorf("find link: %w", err)
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("bring link up: %w", err)
	}
	return nil
}

// retryPause is short at first and never long: a machine that waits costs more
// than a broadcast.
func retryPause(attempt int) time.Duration {
	return min(time.Duration(attempt)*500*time.Millisecond, 5*time.Second)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// hold gets a lease, puts it on the link and renews it. It returns when the
// lease is lost. A panic is an error too: the DHCP client reads what anyone on
// the wire sends (H16).
func (n *Network) hold(ctx context.Context, l *link) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	lease, err := acquire(ctx, l)
	if err != nil {
		return err
	}
	s := readLease(lease.ACK)
	if err := s.validate(); err != nil {
		return err
	}
	if err := n.apply(l, s); err != nil {
		return err
	}
	n.say("%s: address %v from %v for %v%s", l.name, s.address, s.server, s.lease, s.routersText())
	n.setAddress(l, s.address)
	err = renew(ctx, l, lease)
	n.setAddress(l, nil)
	return errors.Join(err, n.remove(l, s))
}

// metric orders routes: the link that the machine booted from first, then in
// the order of the cards.
func (l *link) metric() int {
	if l.boot {
		return 100
	}
	return 200 + l.index
}

// apply sets what the lease says: size of packets, address, routes, name
// servers.
func (n *Network) apply(l *link, s settings) error {
	nl, err := netlink.LinkByIndex(l.index)
	if err != nil {
		return fmt.Errorf("find link: %w", err)
	}
	if s.mtu != 0 && s.mtu != nl.Attrs().MTU {
		if err := netlink.LinkSetMTU(nl, s.mtu); err != nil {
			n.say("%s: set MTU %d: %v", l.name, s.mtu, err) // it works with the usual one, or not at all
		}
	}
	// The kernel's own route to the subnet would have no metric.
	if err := netlink.AddrReplace(nl, &netlink.Addr{IPNet: s.address, Flags: unix.IFA_F_NOPREFIXROUTE}); err != nil {
		return fmt.Errorf("set address %v: %w", s.address, err)
	}
	for _, r := range s.routes(l.metric()) {
		r.LinkIndex = l.index
		if err := netlink.RouteReplace(&r); err != nil {
			return fmt.Errorf("set route to %v: %w", r.Dst, err)
		}
	}
	if err := n.dns.set(l.metric(), s.dns); err != nil {
		n.say("%s: %v", l.name, err)
	}
	if s.hostname != "" {
		if err := setHostname(s.hostname); err != nil {
			n.say("%s: %v", l.name, err)
		}
	}
	return nil
}

// remove takes a lost address off the link; its routes go with it.
func (n *Network) remove(l *link, s settings) error {
	nl, err := netlink.LinkByIndex(l.index)
	if err != nil {
		return nil // the card is gone, and its address with it
	}
	if err := netlink.AddrDel(nl, &netlink.Addr{IPNet: s.address}); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("remove address %v: %w", s.address, err)
	}
	return n.dns.set(l.metric(), nil)
}
