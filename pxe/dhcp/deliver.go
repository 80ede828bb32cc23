package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
)

// ErrPort is returned for a packet to a port that a server does not have.
var ErrPort = errors.New("not a port of this dhcp server")

var errEnded = errors.New("dhcp server has ended")

// Deliver answers a packet that came to the given port (67, or 4011 in proxy
// mode) by another way than the sockets, and returns the reply, nil for none.
// It does what the socket loop does, in the same order: limits, parsing, the
// answer, and the lease is in the store before an acknowledgement is returned.
// Who delivers a packet vouches for its sender.
//
// Run must be running, once and with NoSockets or sockets, since it writes the
// leases.
func (s *Server) Deliver(ctx context.Context, data []byte, port int) ([]byte, error) {
	if port != portServer && (port != portProxy || s.cfg.Mode != Proxy) {
		return nil, fmt.Errorf("deliver packet to port %d: %w", port, ErrPort)
	}
	if len(data) < minPacket || len(data) >= maxPacket || !s.worthy(data) {
		return nil, nil
	}
	var reply []byte
	var err error
	s.guard(func() { reply, err = s.deliver(ctx, data, port) })
	return reply, err
}

func (s *Server) deliver(ctx context.Context, data []byte, port int) ([]byte, error) {
	req, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("parse dhcp packet: %w", err)
	}
	from := addr(req.ClientIPAddr)
	if !from.IsValid() {
		from = netip.IPv4Unspecified()
	}
	if !s.concerns(req, packet{data, port, netip.AddrPortFrom(from, portClient)}) {
		return nil, nil
	}
	resp, x := s.answer(ctx, req, port)
	if resp == nil {
		return nil, nil
	}
	if x.leased {
		if err = s.saved(ctx, addr(resp.YourIPAddr)); err != nil {
			err = fmt.Errorf("acknowledge %s to %s: %w", resp.YourIPAddr, x.client.key, err)
		}
	}
	s.recordReply(x, resp, err)
	if err != nil {
		return nil, err
	}
	return resp.ToBytes(), nil
}

// saved waits until the lease of an address is in the store.
func (s *Server) saved(ctx context.Context, ip netip.Addr) error {
	written := make(chan error, 1)
	s.saveIP(ip, func(err error) { written <- err })
	select {
	case err := <-written:
		return err
	case <-s.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runQuietly is Run without sockets: it writes leases and keeps house.
func (s *Server) runQuietly(ctx context.Context) error {
	defer close(s.ended)
	var house sync.WaitGroup
	house.Go(func() { s.keepHouse(ctx, func() {}) })
	s.writeBehind(ctx)
	house.Wait()
	return nil
}
