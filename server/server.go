// Package server makes the parts into one appliance: it opens the store and
// every socket, reports what does not work all at once, runs the parts as
// components of which one ending ends all, and closes the store last.
package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"bessemer/bmc"
	"bessemer/configs"
	"bessemer/pxe/dhcp"
	"bessemer/pxe/tftp"
	"bessemer/server/api"
	"bessemer/server/auth"
	"bessemer/server/conductor"
	"bessemer/store"
)

// Options of [Open].
type Options struct {
	Config  configs.Config
	Types   bmc.Types // the hardware types
	Version string
	Log     zerolog.Logger
	// Crash, if set, is told of each point of a step at which the process may
	// be killed; see conductor.Config.
	Crash func(where, point string)
	Prove Prove // for tests
}

// A Server is the appliance.
type Server struct {
	Options
	db         *store.DB
	pool       *bmc.Pool
	conductor  *conductor.Conductor
	link       *link        // nil: no network boot
	dhcp       *dhcp.Server // nil: none
	ramdisk    *ramdiskKeeper
	tftp       *tftp.Server // nil: none
	apiSocket  net.Listener
	bootSocket net.Listener // of the provisioning listener; nil: no network boot
	closers    []io.Closer  // what else is open
	api        func() *api.API
	listeners  []api.Listener
	components []component
	secret     string // file of the first admin's password, just made
	begun      time.Time
	ending     context.Context // until requests must give up
	giveUp     func()
}

// Open opens the store and every socket. Nothing is served before Run. All
// sockets that cannot be opened are reported together, with the remedy.
func Open(ctx context.Context, o Options) (s *Server, err error) {
	s = &Server{Options: o, begun: time.Now()}
	s.ending, s.giveUp = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err = s.openStore(); err != nil {
		return s, err
	}
	if s.link, err = findLink(o.Config.Provisioning); err != nil {
		return s, err
	}
	// What the ports turn out to be is part of our URL, and of what URLs of
	// clients may not lead to.
	sockets := errors.Join(s.listenAPI(), s.listenProvisioning())
	images, err := s.openImages()
	if err != nil {
		return s, err
	}
	b := o.Config.BMC
	s.pool = bmc.NewPool(o.Types, conductor.NewRecorder(s.db, s.part("conductor")), bmc.PoolOptions{
		ConnectTimeout: b.ConnectTimeout.D(), CallTimeout: b.CallTimeout.D(), PowerWait: b.PowerTimeout.D(),
		DB: s.db, Log: s.part("bmc"),
	})
	s.conductor = conductor.New(s.conductorConfig(images))
	s.ramdisk = newRamdiskKeeper(o.Config, s.part("ramdisk"))
	s.Add("conductor", s.conductor.Run)
	s.Add("retention", later(5*time.Minute, every(time.Hour, s.prune))) // it reads all there is: not at a start
	err = errors.Join(sockets, s.openAPI(images), s.openProvisioning())
	return s, err
}

// Add adds a component to those that Run runs: one that ends, with an error or
// without, ends all. It is to be called before Run.
func (s *Server) Add(name string, run func(context.Context) error) {
	s.components = append(s.components, component{name, run})
}

func (s *Server) part(name string) zerolog.Logger {
	return s.Log.With().Str("part", name).Logger()
}

func (s *Server) openStore() error {
	dir := s.Config.Dir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w; choose another: --data-dir DIR", err)
	}
	db, err := store.Open(dir, store.Options{Fault: s.Prove.Write})
	if errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("%w; a Bessemer runs already on %s: stop it, or choose another --data-dir", err, dir)
	}
	if err != nil {
		return err
	}
	s.db = db
	s.secret, err = auth.Bootstrap(db, dir)
	return err
}

func (s *Server) listenAPI() (err error) {
	if s.apiSocket, err = net.Listen("tcp", s.Config.API.Listen); err != nil {
		return fmt.Errorf("api.listen %s: %w; choose another: --api-listen ADDRESS:PORT", s.Config.API.Listen, err)
	}
	s.closers = append(s.closers, s.apiSocket)
	return nil
}

func (s *Server) openAPI(images api.Images) error {
	c := s.Config.API
	a, err := auth.New(auth.Config{DB: s.db, Mode: c.Auth, Log: s.part("auth")})
	if err != nil {
		return err
	}
	// Made when all listeners are open, since it shows them.
	s.api = sync.OnceValue(func() *api.API { return s.newAPI(a, images) })
	if c.TLSCert != "" {
		if _, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err != nil {
			return fmt.Errorf("api.tls_cert, api.tls_key: %w", err)
		}
	}
	if s.apiSocket == nil {
		return nil // told already
	}
	s.listeners = append([]api.Listener{{Name: "api", Address: s.URL()}}, s.listeners...)
	if inClear(c) {
		s.Log.Warn().Str("listen", c.Listen).Msg(clearWarning)
	}
	s.Add("api", func(ctx context.Context) error {
		return s.serveHTTP(ctx, s.apiSocket, around(s.Prove.API, s.api().Handler()), c.TLSCert, c.TLSKey)
	})
	return nil
}

const clearWarning = "passwords and tokens cross the network in the clear: set api.tls_cert and api.tls_key, or listen on 127.0.0.1 behind a proxy that speaks TLS"

// inClear says whether credentials leave this host unencrypted.
func inClear(c configs.API) bool {
	host, _, _ := net.SplitHostPort(c.Listen)
	return c.TLSCert == "" && !configs.Loopback(host)
}

// URL is where the API answers.
func (s *Server) URL() string {
	scheme := "http"
	if s.Config.API.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + s.apiSocket.Addr().String()
}

// Times of an end: what runs is given drain to finish, then hurry to give up.
// Together, for requests and then for controllers, they stay below the ten
// seconds that a service manager may be set to.
const (
	drain = 4 * time.Second
	hurry = time.Second
)

// serveHTTP serves until ctx ends; requests that run then may finish, within
// bounds.
func (s *Server) serveHTTP(ctx context.Context, l net.Listener, h http.Handler, cert, key string) error {
	srv := &http.Server{
		Handler: h, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: log.New(httpFaults{s.part("http")}, "", 0),
	}
	api.ServerDefaults(srv)
	done := make(chan error, 1)
	go func() {
		<-ctx.Done()
		err := shutdown(srv, drain)
		if err != nil {
			s.giveUp()
			err = shutdown(srv, hurry)
		}
		if err != nil {
			err = srv.Close()
		}
		done <- err
	}()
	var err error
	if cert != "" {
		err = srv.ServeTLS(l, cert, key)
	} else {
		err = srv.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-done
}

func shutdown(srv *http.Server, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return srv.Shutdown(ctx)
}

// httpFaults takes what the HTTP server has to say: of connections, such as
// clients that speak no TLS, which anybody can make it say often; and of
// panics.
type httpFaults struct{ zerolog.Logger }

// Write implements [io.Writer].
func (f httpFaults) Write(line []byte) (int, error) {
	level := zerolog.DebugLevel
	if bytes.Contains(line, []byte("panic")) {
		level = zerolog.ErrorLevel
	}
	f.WithLevel(level).Msg(strings.TrimSpace(string(line)))
	return len(line), nil
}

// Banner says where the appliance answers and how to log in.
func (s *Server) Banner() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Bessemer %s\n", s.Version)
	for _, l := range s.listeners {
		fmt.Fprintf(&b, "  %-13s %s\n", l.Name, l.Address)
	}
	if s.link == nil {
		fmt.Fprintf(&b, "  no machine can boot from here yet: name the interface towards them with --provisioning-interface\n")
	}
	if inClear(s.Config.API) {
		fmt.Fprintf(&b, "  WARNING: %s\n", clearWarning)
	}
	switch {
	case s.Config.API.Auth == "none":
		fmt.Fprintf(&b, "  no authentication\n")
	default:
		fmt.Fprintf(&b, "  log in as admin; the password is in %s\n", s.Config.Path(auth.SecretFile))
		fmt.Fprintf(&b, "  curl -u admin:$(cat %s) %s/v1/nodes\n", s.Config.Path(auth.SecretFile), s.listeners[0].Address)
	}
	return b.String()
}

// Run serves until ctx ends or a part fails, then ends every part and closes
// the store.
func (s *Server) Run(ctx context.Context) error {
	s.Log.Info().Dur("after", time.Since(s.begun)).Msg("serving")
	s.Add("systemd", notifySystemd)
	err := runAll(ctx, s.components)
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	return errors.Join(err, s.close())
}

// notifySystemd tells systemd, if it started us, that we serve, and then that
// we live.
func notifySystemd(ctx context.Context) error {
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return every(interval/3, func(context.Context) { _, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog) })(ctx)
}

// Close closes what Open has opened, of a server that Run will not run.
func (s *Server) Close() error { return s.close() }

func (s *Server) close() error {
	var errs []error
	s.giveUp()
	for _, c := range s.closers {
		_ = c.Close() // listeners that were served are closed already
	}
	if s.pool != nil {
		errs = append(errs, s.closePool())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(errs...)
}

// closePool ends the sessions with the controllers, and leaves those of
// controllers that hang to end by themselves.
func (s *Server) closePool() error {
	done := make(chan error, 1)
	go func() { done <- s.pool.Close() }()
	select {
	case err := <-done:
		return err
	case <-time.After(drain):
		s.Log.Warn().Msg("some controllers do not answer; their sessions are left open")
		return nil
	}
}

// prune deletes what nobody needs any more.
func (s *Server) prune(ctx context.Context) {
	const day = 24 * time.Hour
	n, err := s.db.Prune(ctx, store.Retention{Age: 30 * day, FailedAge: 180 * day, Runs: 50, Messages: 2000})
	if err != nil && ctx.Err() == nil {
		s.Log.Error().Err(err).Msg("cannot delete old runs and messages")
		return
	}
	s.Log.Debug().Interface("deleted", n).Msg("old runs and messages")
}

// ownAddresses are the listeners that no URL of a client may lead to.
func (s *Server) ownAddresses() []netip.AddrPort {
	var out []netip.AddrPort
	listen := s.Config.API.Listen
	if s.apiSocket != nil {
		listen = s.apiSocket.Addr().String()
	}
	if a, err := net.ResolveTCPAddr("tcp", listen); err == nil {
		ip := a.AddrPort().Addr().Unmap()
		if !ip.IsValid() { // ":6385"
			ip = netip.IPv6Unspecified()
		}
		out = append(out, netip.AddrPortFrom(ip, uint16(a.Port)))
	}
	if s.link != nil {
		out = append(out, s.provisioningAddr())
	}
	return out
}
