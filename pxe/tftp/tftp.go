// Package tftp serves boot programs by TFTP (RFC 1350, options of RFC 2347 to
// 2349), from memory only: a name is a key of a map and never a path. Writes
// are refused. What one source, and all sources without a lease together, may
// run at a time is limited, so that forged requests cost little.
//
// Not supported: windowsize (RFC 7440); clients fall back to one block.
package tftp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/pin/tftp/v3"
	"github.com/rs/zerolog"

	"bessemer/pxe"
	"bessemer/store"
)

// Config of a [Server].
type Config struct {
	Address  netip.AddrPort    // ours; port 0 means 69
	AnyPort  bool              // port 0 means any that is free: for machines that are told which
	Files    map[string][]byte // by name; not changed while the server runs
	Booter   pxe.Booter        // says on whose behalf a machine asks
	Owner    pxe.Owner         // finds the machine by its address; nil: none is known
	Recorder store.Recorder
	Log      zerolog.Logger
}

const (
	// blockSize fits an Ethernet frame: 1500 less IP, UDP and TFTP headers.
	// Larger ones are fragmented, which some firmware cannot take (D-15).
	blockSize = 1468
	timeout   = time.Second
	retries   = 3 // sends of one block; forged sources get no more (TM-06)

	// Machines that have leases are as many as the rack has, and a ROM that is
	// told "busy" does not ask again.
	maxTransfers  = 4096
	maxStrangers  = 64
	maxPerSource  = 8
	receiveBuffer = 4 << 20
	shutdownGrace = 2 * time.Second
)

// A Server serves files by TFTP.
type Server struct {
	cfg    Config
	log    zerolog.Logger
	limit  pxe.Limit
	server *tftp.Server
	conn   *net.UDPConn
	stop   context.Context // ends running transfers
	abort  context.CancelFunc
}

// New makes a server. It opens no socket yet.
func New(cfg Config) *Server {
	if cfg.Address.Port() == 0 && !cfg.AnyPort {
		cfg.Address = netip.AddrPortFrom(cfg.Address.Addr(), 69)
	}
	if cfg.Owner == nil {
		cfg.Owner = func(netip.Addr) (net.HardwareAddr, bool) { return nil, false }
	}
	s := &Server{
		cfg: cfg, log: cfg.Log.With().Str("component", "tftp").Logger(),
		limit: pxe.Limit{Total: maxTransfers, PerSource: maxPerSource, Strangers: maxStrangers},
	}
	s.stop, s.abort = context.WithCancel(context.Background())
	s.server = tftp.NewServer(s.read, s.write)
	s.server.SetTimeout(timeout)
	s.server.SetRetries(retries)
	s.server.SetBackoff(func(int) time.Duration { return 0 }) // the timeout is pause enough
	s.server.SetBlockSize(blockSize)
	return s
}

// Open opens the socket, so that what is wrong with it is known before
// anything is served.
func (s *Server) Open() error {
	if s.conn != nil {
		return nil
	}
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(s.cfg.Address))
	switch {
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("tftp: %s: permission denied: run as root, or give the program the right: setcap cap_net_bind_service,cap_net_raw+ep", s.cfg.Address)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("tftp: %s is in use by another program: stop it (`ss -lunp` names it), or set tftp.enabled to false", s.cfg.Address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("tftp: %s is not an address of this host", s.cfg.Address)
	case err != nil:
		return fmt.Errorf("tftp: listen on %s: %w", s.cfg.Address, err)
	}
	_ = conn.SetReadBuffer(receiveBuffer) // as much as is allowed: requests come in bursts
	s.conn = conn
	return nil
}

// Addr is the address that the server listens on, after Open.
func (s *Server) Addr() netip.AddrPort { return s.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// Run serves until ctx ends. Transfers that still run then get two seconds,
// after which they end with their next block; one whose client is silent ends
// when its retries do. So Run returns at most 6 seconds after ctx.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Open(); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.serve() }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
		served <- nil
	}
	grace := time.AfterFunc(shutdownGrace, s.abort)
	s.server.Shutdown()
	grace.Stop()
	s.abort()
	<-served
	return err
}

func (s *Server) serve() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("tftp: panic: %v", r)
		}
	}()
	return s.server.Serve(s.conn)
}
