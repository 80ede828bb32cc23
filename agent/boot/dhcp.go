package boot

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// answerTime is how long to wait for a DHCP server's answer; then the question
// is repeated.
const answerTime = 3 * time.Second

// asked are the options that the agent uses.
var asked = dhcpv4.WithRequestedOptions(
	dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer, dhcpv4.OptionHostName, dhcpv4.OptionDomainName,
	dhcpv4.OptionInterfaceMTU, dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionIPAddressLeaseTime, dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue,
)

// vendorClass tells the ramdisk from the firmware before it.
var vendorClass = dhcpv4.WithOption(dhcpv4.OptClassIdentifier("bessemer-agent"))

// acquire asks for an address (RFC 2131, section 4.4.1). No client identifier
// is sent: a server then knows this machine by its MAC, as it knew its firmware.
func acquire(ctx context.Context, l *link) (*nclient4.Lease, error) {
	c, err := nclient4.New(l.name, nclient4.WithTimeout(answerTime), nclient4.WithRetry(2))
	if err != nil {
		return nil, fmt.Errorf("open DHCP client: %w", err)
	}
	defer c.Close()
	lease, err := c.Request(ctx, asked, vendorClass)
	if err != nil {
		return nil, fmt.Errorf("ask for an address by DHCP: %w", err)
	}
	return lease, nil
}

// renew keeps a lease: half-way it asks the server that gave it, later any
// server (RFC 2131, section 4.4.5). It returns when the lease is lost.
func renew(ctx context.Context, l *link, lease *nclient4.Lease) error {
	for {
		t1, t2, end := leaseTimes(lease.ACK, lease.CreationTime)
		if end.IsZero() { // for ever
			<-ctx.Done()
			return ctx.Err()
		}
		at := t1
		for {
			pause(ctx, time.Until(at))
			if ctx.Err() != nil {
				return ctx.Err()
			}
			next, err := extend(ctx, l, lease, time.Now().After(t2))
			if err == nil {
				lease = next
				break
			}
			var nak *nclient4.ErrNak
			if errors.As(err, &nak) || time.Now().After(end) {
				return fmt.Errorf("lease of %v lost: %w", lease.ACK.YourIPAddr, err)
			}
			at = nextTry(time.Now(), t2, end)
		}
	}
}

// nextTry halves the time that is left to the next boundary, but waits a
// minute at least (RFC 2131, section 4.4.5), and at most until the end.
func nextTry(now, t2, end time.Time) time.Time {
	boundary := end
	if now.Before(t2) {
		boundary = t2
	}
	at := now.Add(max(boundary.Sub(now)/2, time.Minute))
	if at.After(end) {
		return end
	}
	return at
}

// extend asks for more time: from the server itself, or by a broadcast which
// relays pass on.
func extend(ctx context.Context, l *link, lease *nclient4.Lease, rebind bool) (*nclient4.Lease, error) {
	options := []nclient4.ClientOpt{nclient4.WithTimeout(answerTime), nclient4.WithRetry(2)}
	modifiers := []dhcpv4.Modifier{asked, vendorClass}
	if server := lease.ACK.ServerIdentifier(); !rebind && server != nil {
		options = append(options,
			nclient4.WithUnicast(&net.UDPAddr{IP: lease.ACK.YourIPAddr, Port: nclient4.ClientPort}),
			nclient4.WithServerAddr(&net.UDPAddr{IP: server, Port: nclient4.ServerPort}))
	}
	c, err := nclient4.New(l.name, options...)
	if err != nil {
		return nil, fmt.Errorf("open DHCP client: %w", err)
	}
	defer c.Close()
	next, err := c.Renew(ctx, lease, modifiers...)
	if err != nil {
		return nil, fmt.Errorf("renew lease: %w", err)
	}
	return next, nil
}

// infinite is a lease time that means for ever (RFC 2131, section 3.3).
const infinite = 0xffffffff * time.Second

// leaseTimes returns when to renew, when to rebind and when the lease ends;
// zero times when it never does. A server's odd times are put in order.
func leaseTimes(ack *dhcpv4.DHCPv4, from time.Time) (t1, t2, end time.Time) {
	total := ack.IPAddressLeaseTime(time.Hour)
	if total >= infinite {
		return t1, t2, end
	}
	total = max(total, 10*time.Second)
	renewal, rebinding := ack.IPAddressRenewalTime(total/2), ack.IPAddressRebindingTime(total*7/8)
	if renewal <= 0 || rebinding <= renewal || total <= rebinding {
		renewal, rebinding = total/2, total*7/8
	}
	jitter := time.Duration(rand.Int64N(int64(renewal)/20 + 1)) // a rack that booted at once
	return from.Add(renewal - jitter), from.Add(rebinding), from.Add(total)
}

// settings are what a lease says.
type settings struct {
	address  *net.IPNet
	server   net.IP
	lease    time.Duration
	routers  []net.IP
	static   []*dhcpv4.Route
	dns      []net.IP
	hostname string
	mtu      int
}

func readLease(ack *dhcpv4.DHCPv4) settings {
	s := settings{
		address: &net.IPNet{IP: ack.YourIPAddr.To4(), Mask: ack.SubnetMask()},
		server:  ack.ServerIdentifier(), lease: ack.IPAddressLeaseTime(time.Hour),
		routers: ack.Router(), static: ack.ClasslessStaticRoute(), dns: ack.DNS(), hostname: hostLabel(ack.HostName()),
	}
	if s.address.Mask == nil && s.address.IP != nil {
		s.address.Mask = s.address.IP.DefaultMask()
	}
	if mtu, err := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, ack.Options); err == nil && mtu >= 576 && mtu <= 9216 {
		s.mtu = int(mtu)
	}
	return s
}

func (s settings) validate() error {
	ip := s.address.IP
	if ip == nil || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() || ip.Equal(net.IPv4bcast) {
		return fmt.Errorf("the DHCP server %v gave the address %v, which no machine can have", s.server, ip)
	}
	if ones, bits := s.address.Mask.Size(); bits != 32 || ones == 0 {
		return fmt.Errorf("the DHCP server %v gave the address %v with the netmask %v, which is none", s.server, ip, s.address.Mask)
	}
	return nil
}

func (s settings) routersText() string {
	if len(s.routers) == 0 {
		return ""
	}
	return fmt.Sprintf(", router %v", s.routers[0])
}

// maxRoutes bounds how many routes a lease may bring.
const maxRoutes = 64

// routes returns the routes of a lease: the subnet's, and either the static
// ones or the default route (RFC 3442: with the former the latter is ignored).
func (s settings) routes(metric int) []netlink.Route {
	subnet := &net.IPNet{IP: s.address.IP.Mask(s.address.Mask), Mask: s.address.Mask}
	all := []netlink.Route{{Dst: subnet, Src: s.address.IP, Scope: netlink.SCOPE_LINK, Priority: metric}}
	for i, r := range s.static {
		if r.Dest == nil || i == maxRoutes {
			break
		}
		route := netlink.Route{Dst: r.Dest, Src: s.address.IP, Priority: metric}
		if r.Router == nil || r.Router.IsUnspecified() {
			route.Scope = netlink.SCOPE_LINK
		} else {
			route.Gw, route.Flags = r.Router, s.onLink(r.Router)
		}
		all = append(all, route)
	}
	if len(s.static) == 0 && len(s.routers) > 0 {
		everywhere := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
		all = append(all, netlink.Route{Dst: everywhere, Src: s.address.IP, Gw: s.routers[0], Flags: s.onLink(s.routers[0]), Priority: metric})
	}
	return all
}

// onLink is for routers outside the subnet, as some clouds have them.
func (s settings) onLink(router net.IP) int {
	if s.address.Contains(router) {
		return 0
	}
	return unix.RTNH_F_ONLINK
}

// hostLabel is the first label of a host name if the kernel may have it (RFC
// 1123, section 2.1), else "".
func hostLabel(name string) string {
	label, _, _ := strings.Cut(strings.TrimRight(name, "\x00"), ".")
	for _, r := range label {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' {
			return ""
		}
	}
	if len(label) > 63 {
		return ""
	}
	return label
}
