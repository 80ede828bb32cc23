package firmware

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

const (
	portServer = 67
	portProxy  = 4011

	// carryTime bounds what the appliance may take for a packet. It is not
	// paced: a busy appliance is no quicker for a machine in a hurry.
	carryTime = 30 * time.Second
)

// Waits for an answer, try by try: of a PXE ROM (PXE specification 2.1,
// section 2.2.3), and of iPXE, which gives up after 10 seconds (D-07).
var (
	romWaits  = []time.Duration{4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second}
	ipxeWaits = []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}
)

var (
	errNoOffer = errors.New("no DHCP offer came")
	errRefused = errors.New("the DHCP server refused the address")

	errTwoAnswer = errors.New("a DHCP server answered a request that was for another")
)

// A client asks for an address as one of the programs that a machine runs.
type client struct {
	persona
	waits []time.Duration
	// wanted says whether an offer is good enough; a reason is why not.
	wanted func(answer) (reason string)
}

// configure gets an address: DISCOVER, OFFER, REQUEST, ACK (RFC 2131 3.1).
func (m *machine) configure(ctx context.Context, c client) (answer, error) {
	err := errNoOffer
	for i, w := range c.waits {
		a, why := answer{}, error(nil)
		if i == 0 && m.on("D-29") && !c.ipxe {
			why = m.otherServer(ctx, c.persona)
		} else {
			a, why = m.lease(ctx, c)
		}
		if why == nil && a.lease.IP.IsValid() {
			m.say("DHCP: %s from %s, file %q", a.lease.Prefix, a.lease.Server, a.file)
			return a, nil
		}
		if errors.Is(why, errTwoAnswer) {
			return answer{}, why
		}
		if why != nil {
			err = why
		}
		if werr := m.wait(ctx, w); werr != nil {
			return answer{}, werr
		}
	}
	m.say("DHCP: %s", err)
	return answer{}, fmt.Errorf("configure by dhcp, %d tries: %w", len(c.waits), err)
}

// lease is one try of an exchange. No error and no address: a packet was lost.
func (m *machine) lease(ctx context.Context, c client) (answer, error) {
	discover, err := m.packet(dhcpv4.MessageTypeDiscover, c.persona)
	if err != nil {
		return answer{}, err
	}
	if m.on("D-05") && c.ipxe {
		discover.DeleteOption(dhcpv4.OptionClientSystemArchitectureType)
	}
	offer := m.ask(ctx, discover, portServer, dhcpv4.MessageTypeOffer)
	if offer == nil {
		return answer{}, nil
	}
	o := learn(offer)
	if !o.lease.IP.IsValid() {
		return answer{}, errors.New("an offer came, but without an address")
	}
	if why := c.wanted(o); why != "" {
		return answer{}, fmt.Errorf("offer of %s not taken: %s", o.lease.Server, why)
	}
	request, err := m.packet(dhcpv4.MessageTypeRequest, c.persona, requesting(o.lease.IP, o.lease.Server))
	if err != nil {
		return answer{}, err
	}
	request.TransactionID = discover.TransactionID
	ack := m.ask(ctx, request, portServer, dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak)
	if ack == nil {
		return answer{}, nil
	}
	if ack.MessageType() == dhcpv4.MessageTypeNak {
		return answer{}, errRefused
	}
	a := learn(ack)
	if a.lease.IP != o.lease.IP {
		return answer{}, fmt.Errorf("offered %s, acknowledged %q", o.lease.IP, a.lease.IP)
	}
	if a.file == "" {
		a.file, a.next, a.class = o.file, o.next, o.class // firmware keeps the offer for this
	}
	return a, nil
}

func requesting(ip, server netip.Addr) dhcpv4.Modifier {
	return func(d *dhcpv4.DHCPv4) {
		d.UpdateOption(dhcpv4.OptRequestedIPAddress(net.IP(ip.AsSlice())))
		if server.IsValid() {
			d.UpdateOption(dhcpv4.OptServerIdentifier(net.IP(server.AsSlice())))
		}
	}
}

// ask sends a packet and returns the reply of one of the given types, nil when
// there is none.
func (m *machine) ask(ctx context.Context, d *dhcpv4.DHCPv4, port int, want ...dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	raw := m.carry(ctx, m.bytes(d), port)
	if raw == nil {
		return nil
	}
	reply, ok := m.read(raw, d)
	if !ok {
		return nil
	}
	for _, t := range want {
		if reply.MessageType() == t {
			return reply
		}
	}
	m.say("DHCP: %s in answer to %s dropped", reply.MessageType(), d.MessageType())
	return nil
}

// carry hands a packet to the wire and returns what comes back, nil when one of
// the two is lost.
func (m *machine) carry(ctx context.Context, packet []byte, port int) []byte {
	if m.blocked() || m.lost() || m.delay(ctx) != nil {
		return nil
	}
	var reply []byte
	err := m.through(ctx, anyError, func() (err error) {
		within, cancel := context.WithTimeout(ctx, carryTime)
		defer cancel()
		reply, err = m.Wire.DHCP(within, packet, port)
		return err
	})
	if err != nil || reply == nil || m.lost() || m.delay(ctx) != nil {
		return nil
	}
	return reply
}

// otherServer is an exchange with a server that is quicker than the appliance
// and names nothing to boot (D-29): the machine asks it for its address, by
// broadcast, boots nothing and begins again. Nobody else may answer that
// request.
func (m *machine) otherServer(ctx context.Context, p persona) error {
	discover, err := m.packet(dhcpv4.MessageTypeDiscover, p)
	if err != nil {
		return err
	}
	_ = m.carry(ctx, m.bytes(discover), portServer) // came second
	request, err := m.packet(dhcpv4.MessageTypeRequest, p, requesting(otherLease, otherServer))
	if err != nil {
		return err
	}
	if reply := m.carry(ctx, m.bytes(request), portServer); reply != nil {
		return fmt.Errorf("take %s from %s: %w", otherLease, otherServer, errTwoAnswer)
	}
	return fmt.Errorf("%s offered an address and no boot file", otherServer)
}

var (
	otherServer = netip.AddrFrom4([4]byte{127, 64, 0, 2})
	otherLease  = netip.AddrFrom4([4]byte{127, 64, 0, 99})
)

// Renew extends a lease as the operating system of the machine does (RFC 2131
// 4.4.5), and returns how long it holds from now. ErrLeaseLost means that the
// address is another's now.
func Renew(ctx context.Context, c Config, l Lease) (time.Duration, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	m := newMachine(c)
	request, err := m.packet(dhcpv4.MessageTypeRequest, persona{plain: true}, dhcpv4.WithClientIP(net.IP(l.IP.AsSlice())))
	if err != nil {
		return 0, err
	}
	reply := m.ask(ctx, request, portServer, dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak)
	switch {
	case reply == nil:
		return 0, fmt.Errorf("renew lease of %s: no answer", l.IP)
	case reply.MessageType() == dhcpv4.MessageTypeNak:
		return 0, fmt.Errorf("renew lease of %s: %w", l.IP, ErrLeaseLost)
	}
	return learn(reply).lease.For, nil
}

// ErrLeaseLost is returned for a lease that the server does not renew.
var ErrLeaseLost = errors.New("the address is not this machine's any more")
