// Package ra answers IPv6 router solicitations with an empty advertisement: no
// prefix, no option, a router lifetime of zero, which means "no router here"
// (RFC 4861 section 4.2). iPXE waits for such an answer before it goes on with
// DHCP over IPv4; without one every DHCP phase takes 13 seconds longer.
//
// It works on frames, so the host needs no IPv6 on the interface. Where a real
// router advertises itself, the package keeps silent.
package ra

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/mdlayher/packet"
	"github.com/rs/zerolog"
	"golang.org/x/net/bpf"
	"golang.org/x/time/rate"
)

// Config of a [Responder].
type Config struct {
	Interface string
	Log       zerolog.Logger
}

// A Responder answers router solicitations on one interface.
type Responder struct {
	cfg   Config
	log   zerolog.Logger
	conn  *packet.Conn
	mac   net.HardwareAddr
	src   netip.Addr
	limit *rate.Limiter
	quiet time.Time // until then a real router speaks for itself
	sent  atomic.Uint64
}

const (
	etherIPv6   = 0x86dd
	maxFrame    = 2048
	perSecond   = 10 // answers; one serves all who wait
	linkPeriod  = 2 * time.Second
	longestHush = 30 * time.Minute
)

var (
	allNodes   = netip.MustParseAddr("ff02::1")
	allRouters = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 2} // frames to ff02::2
	everyone   = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1} // frames to ff02::1
)

// New makes a responder. It opens no socket yet.
func New(cfg Config) *Responder {
	return &Responder{
		cfg: cfg, limit: rate.NewLimiter(perSecond, perSecond),
		log: cfg.Log.With().Str("component", "ra").Str("interface", cfg.Interface).Logger(),
	}
}

// Open opens the packet socket.
func (r *Responder) Open() error {
	if r.conn != nil {
		return nil
	}
	ifi, err := net.InterfaceByName(r.cfg.Interface)
	if err != nil {
		return fmt.Errorf("router advertisements: interface %s: %w", r.cfg.Interface, err)
	}
	if len(ifi.HardwareAddr) != 6 {
		return fmt.Errorf("router advertisements: %s is no Ethernet interface: set dhcp.router_advertisements to false", ifi.Name)
	}
	filter, err := bpf.Assemble(wanted)
	if err != nil {
		return fmt.Errorf("router advertisements: assemble filter: %w", err)
	}
	conn, err := packet.Listen(ifi, packet.Datagram, etherIPv6, &packet.Config{Filter: filter})
	if err != nil {
		return fmt.Errorf("router advertisements on %s: %w; run as root, or give the program the right: setcap cap_net_bind_service,cap_net_raw+ep", ifi.Name, err)
	}
	if err := conn.JoinGroup(allRouters); err != nil {
		return errors.Join(fmt.Errorf("router advertisements on %s: join group: %w", ifi.Name, err), conn.Close())
	}
	r.conn, r.mac, r.src = conn, ifi.HardwareAddr, linkLocal(ifi)
	return nil
}

// Sent is how many advertisements were sent.
func (r *Responder) Sent() uint64 { return r.sent.Load() }

// Run answers until ctx ends. A removed interface is waited for.
func (r *Responder) Run(ctx context.Context) error {
	if err := r.Open(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		r.serve(ctx)
		r.conn = nil
		for ctx.Err() == nil && r.Open() != nil {
			select {
			case <-ctx.Done():
			case <-time.After(linkPeriod):
			}
		}
	}
	if r.conn != nil {
		_ = r.conn.Close()
	}
	return nil
}

// serve reads until ctx ends or the interface is another. It closes the socket.
func (r *Responder) serve(ctx context.Context) {
	conn := r.conn
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	buf := make([]byte, maxFrame)
	index := interfaceIndex(r.cfg.Interface)
	for ctx.Err() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(linkPeriod))
		n, _, err := conn.ReadFrom(buf)
		if err == nil {
			r.handle(buf[:n])
			continue
		}
		if interfaceIndex(r.cfg.Interface) != index {
			return
		}
		if ne := net.Error(nil); !errors.As(err, &ne) || !ne.Timeout() {
			select {
			case <-ctx.Done():
			case <-time.After(linkPeriod): // ENETDOWN and the like
			}
		}
	}
}

func interfaceIndex(name string) int {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return 0
	}
	return ifi.Index
}

func (r *Responder) handle(p []byte) {
	m, ok := parse(p)
	now := time.Now()
	switch {
	case !ok:
	case m.kind == advertisement && m.from != r.src && m.lifetime > 0:
		if now.After(r.quiet) {
			r.log.Info().Stringer("router", m.from).Msg("a real IPv6 router is here; keeping silent")
		}
		r.quiet = now.Add(min(m.lifetime, longestHush))
	case m.kind == solicitation && now.After(r.quiet) && r.limit.AllowN(now, 1):
		if _, err := r.conn.WriteTo(empty(r.src), &packet.Addr{HardwareAddr: everyone}); err != nil {
			r.log.Warn().Err(err).Msg("router advertisement not sent; iPXE will wait 13 s")
			return
		}
		r.sent.Add(1)
	}
}
