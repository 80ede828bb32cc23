package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/coredhcp/coredhcp/handler"
	"github.com/rs/zerolog"

	"bessemer/pxe"
	"bessemer/store"
)

// A Server answers DHCP on one interface.
type Server struct {
	cfg      Config
	log      zerolog.Logger
	db       *store.DB
	rec      store.Recorder
	booter   pxe.Booter
	handlers []handler.Handler4
	ports    ports
	table    *table // nil unless in full mode
	seen     seen
	limit    *limiter
	saves    chan save
	ended    chan struct{} // closed when Run without sockets has ended
	socks    *sockets

	exchanges sync.Map // *dhcpv4.DHCPv4 -> *exchange, while the handlers run
	warned    warned
}

// New makes a server and loads its leases. It opens no socket yet.
func New(cfg Config, db *store.DB, booter pxe.Booter, rec store.Recorder) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, db: db, booter: booter, rec: rec, ports: ports{db: db},
		log:   cfg.Log.With().Str("component", "dhcp").Str("interface", cfg.Interface).Logger(),
		limit: newLimiter(cfg.Limits), saves: make(chan save, 1024),
		ended: make(chan struct{}),
	}
	var err error
	if s.handlers, err = s.chain(); err != nil {
		return nil, err
	}
	if err := s.ports.refresh(); err != nil {
		return nil, err
	}
	if cfg.Mode == Full {
		s.table = newTable(&s.cfg)
		if !cfg.Subnet.Contains(cfg.Address) && !cfg.NoSockets {
			s.log.Info().Stringer("network", cfg.Subnet).Msg("our address is in another network than the range: only relayed requests are answered")
		}
		return s, s.load()
	}
	return s, nil
}

// Refresh reads the enrolled ports anew. Call it when ports have changed; the
// server does it itself every 10 seconds.
func (s *Server) Refresh() error { return s.ports.refresh() }

// RefreshNode is Refresh for the ports of one node, by UUID.
func (s *Server) RefreshNode(node string) error { return s.ports.refreshNode(node) }

// Owner returns the MAC address of the machine that has ip now, as far as this
// server knows. It is a [pxe.Owner].
func (s *Server) Owner(ip netip.Addr) (net.HardwareAddr, bool) {
	ip = ip.Unmap()
	if s.table == nil {
		return s.seen.find(ip)
	}
	l, ok := s.table.find(ip, time.Now())
	if !ok {
		return nil, false
	}
	mac, err := net.ParseMAC(l.key)
	return mac, err == nil
}

// Open opens the sockets, so that what is wrong with them is known before
// anything is served. The error says what to do.
func (s *Server) Open() error {
	if s.cfg.Mode == Off || s.cfg.NoSockets || s.socks != nil {
		return nil
	}
	socks, err := openSockets(s.cfg)
	if err != nil {
		return err
	}
	s.socks = socks
	return nil
}

// Run serves until ctx ends. It opens the sockets if Open has not, and again
// when the interface was removed and has come back.
func (s *Server) Run(ctx context.Context) error {
	if s.cfg.Mode == Off {
		<-ctx.Done()
		return nil
	}
	if s.cfg.NoSockets {
		return s.runQuietly(ctx)
	}
	if err := s.Open(); err != nil {
		return err
	}
	var writer sync.WaitGroup
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	writer.Go(func() { s.writeBehind(writing) })
	defer writer.Wait()
	defer stop()
	for {
		err := s.serve(ctx)
		s.socks = nil
		if !errors.Is(err, errLinkGone) {
			return err
		}
		s.log.Warn().Msg("interface was removed; waiting for it to come back")
		if err := s.reopen(ctx); err != nil {
			return nil //nolint:nilerr // ctx ended
		}
		s.log.Info().Msg("interface is back")
	}
}

func (s *Server) reopen(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		err := s.Open()
		if err == nil {
			return nil
		}
		s.complain("reopen", "%s", err)
	}
}

// complain warns once a minute for each kind of trouble: most of it is caused
// by packets, and packets come in floods. kind is a constant, never a part of a
// packet.
func (s *Server) complain(kind, format string, args ...any) {
	if s.warned.due(kind, time.Now()) {
		s.log.Warn().Msg(fmt.Sprintf(format, args...))
	}
}

// foreign tells of another DHCP server on the network, which will sometimes be
// faster than we are (quirk D-29).
func (s *Server) foreign(other netip.Addr) {
	s.complain("foreign", "another DHCP server, %s, answers on %s: machines may boot from it instead; stop it there or set dhcp.mode to proxy", other, s.cfg.Interface)
}

type warned struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (w *warned) due(kind string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.last[kind]; ok && now.Sub(last) < time.Minute {
		return false
	}
	if w.last == nil {
		w.last = map[string]time.Time{}
	}
	w.last[kind] = now
	return true
}
