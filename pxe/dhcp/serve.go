package dhcp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

const (
	workers    = 8
	queueSize  = 512
	maxPacket  = 2048 // an Ethernet frame holds no more; a relay's fragments are not ours
	minPacket  = 240  // fixed fields and cookie (RFC 2131 2)
	hlenAt     = 2    // offset of hlen
	chaddrAt   = 28   // offset of chaddr
	linkPeriod = 2 * time.Second
	portPeriod = 10 * time.Second
	tidyPeriod = time.Minute
)

var errLinkGone = errors.New("interface is gone")

// A packet is what came to one of our ports.
type packet struct {
	data []byte
	port int
	peer netip.AddrPort
}

// serve reads, answers and keeps house until ctx ends or the interface is
// gone. It closes the sockets.
func (s *Server) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	socks := s.socks
	queue := make(chan packet, queueSize)
	var readers, rest sync.WaitGroup
	for port, conn := range socks.conns {
		readers.Go(func() { s.read(ctx, conn, port, queue) })
	}
	for range workers {
		rest.Go(func() {
			for p := range queue {
				s.guard(func() { s.handle(ctx, socks, p) })
			}
		})
	}
	rest.Go(func() {
		s.keepHouse(ctx, func() {
			if ifi, err := net.InterfaceByName(s.cfg.Interface); err != nil || ifi.Index != socks.index {
				cancel(errLinkGone)
			}
		})
	})
	<-ctx.Done()
	socks.close()
	readers.Wait()
	close(queue)
	rest.Wait()
	cause := context.Cause(ctx)
	cancel(nil)
	if errors.Is(cause, errLinkGone) {
		return cause
	}
	return nil
}

// read queues the packets that are worth an answer. It is the only code that
// runs for every packet of a flood.
func (s *Server) read(ctx context.Context, conn *net.UDPConn, port int, queue chan<- packet) {
	buf := make([]byte, maxPacket)
	for {
		n, peer, err := conn.ReadFromUDPAddrPort(buf)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			time.Sleep(50 * time.Millisecond) // ENETDOWN and the like: keepHouse sees to it
			continue
		}
		if n < minPacket || n == maxPacket || !s.worthy(buf[:n]) {
			continue
		}
		select {
		case queue <- packet{append([]byte(nil), buf[:n]...), port, netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())}:
		default:
			s.complain("queue", "more DHCP packets than can be answered; some are dropped")
		}
	}
}

func (s *Server) worthy(b []byte) bool {
	key := "id"
	if b[hlenAt] == 6 {
		key = net.HardwareAddr(b[chaddrAt : chaddrAt+6]).String()
	}
	return s.limit.allow(key, s.isEnrolled(key))
}

// handle answers one packet.
func (s *Server) handle(ctx context.Context, socks *sockets, p packet) {
	req, err := parse(p.data)
	if err != nil {
		s.log.Debug().Err(err).Stringer("peer", p.peer).Msg("unusable packet dropped")
		return
	}
	if !s.concerns(req, p) {
		return
	}
	resp, x := s.answer(ctx, req, p.port)
	if resp == nil {
		return
	}
	send := func(err error) {
		if err == nil {
			err = socks.send(destination(req, resp, p.port, p.peer), p.port, resp.ToBytes())
		}
		if err != nil {
			s.complain("send", "reply to %s: %s", x.client.key, err)
		}
		s.recordReply(x, resp, err)
	}
	if x.leased {
		s.saveIP(addr(resp.YourIPAddr), send)
		return
	}
	send(nil)
}

// parse reads a packet; one without an END option is taken too (quirk D-20).
func parse(data []byte) (*dhcpv4.DHCPv4, error) {
	req, err := dhcpv4.FromBytes(data)
	if err == nil {
		return req, nil
	}
	if again, err := dhcpv4.FromBytes(append(data[:len(data):len(data)], 255)); err == nil {
		return again, nil
	}
	return nil, err
}

// concerns reports whether we have anything to say on the network that a packet
// comes from, and whether it may say what it says.
func (s *Server) concerns(req *dhcpv4.DHCPv4, p packet) bool {
	if s.cfg.Mode != Full {
		return true
	}
	relay, has := addr(req.GatewayIPAddr), addr(req.ClientIPAddr)
	switch t := req.MessageType(); {
	case relay.IsValid():
		if !s.cfg.Subnet.Contains(relay) {
			s.complain("relay", "relay %s asks for a network that we have no range for (ours is %s)", relay, s.cfg.Subnet)
			return false
		}
	case !s.cfg.Subnet.Contains(s.cfg.Address) && !s.cfg.NoSockets:
		return false // the range is for relayed networks only
	case t == dhcpv4.MessageTypeRelease && p.peer.Addr() != has:
		return false // only the holder can send from the address
	case t == dhcpv4.MessageTypeInform && !s.cfg.Subnet.Contains(has):
		return false // would be answered to a stranger
	}
	return true
}

// keepHouse does what is to be done from time to time. watch looks whether the
// interface is still there.
func (s *Server) keepHouse(ctx context.Context, watch func()) {
	link, port, tidy := time.NewTicker(linkPeriod), time.NewTicker(portPeriod), time.NewTicker(tidyPeriod)
	defer link.Stop()
	defer port.Stop()
	defer tidy.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-link.C:
			watch()
		case <-port.C:
			if err := s.ports.refresh(); err != nil {
				s.log.Error().Err(err).Msg("keeping the ports known so far")
			}
		case <-tidy.C:
			s.tidy()
		}
	}
}

// guard keeps a panic from ending the process: one packet is lost, no more.
func (s *Server) guard(fn func()) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error().Any("panic", r).Bytes("stack", debug.Stack()).Msg("packet dropped")
		}
	}()
	fn()
}
