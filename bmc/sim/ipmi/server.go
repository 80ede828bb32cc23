package ipmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
)

// Options are what a controller is like. The zero value is one that anybody
// may log in to as the anonymous user without a password.
type Options struct {
	User     string // at most 16 bytes
	Password string // at most 20 bytes, of which IPMI 1.5 compares 16
	KG       []byte // the controller's own key, 20 bytes; nil: none
	// NoLegacy turns IPMI 1.5 off.
	NoLegacy bool
	// Sessions is how many may be open at once; 0 means 16.
	Sessions int
	// MAC is the controller's own, for Get LAN Configuration Parameters; nil:
	// made of the machine's first one.
	MAC net.HardwareAddr
	// Now is the controller's clock; nil: time.Now.
	Now func() time.Time
	Log zerolog.Logger
}

// A Server is the management controller of one machine. It holds one goroutine
// and no timer while nothing is asked of it.
type Server struct {
	c *sim.Controller
	o Options

	mu       sync.Mutex
	conn     net.PacketConn
	serving  bool
	served   chan struct{} // closed when Serve has returned
	closed   bool
	late     map[*time.Timer]struct{} // answers that are held back
	sessions sessions
	boot     bootOptions
	sdr      uint16        // the last reservation of the sensor records
	sel      uint16        // and of the event log
	skew     time.Duration // of the event log's clock
	last     time.Time     // last command taken (I-06)
}

// New returns the controller of a machine. What is wrong with it is read from
// c.Flaws at each request.
func New(c *sim.Controller, o Options) *Server {
	if o.Sessions <= 0 {
		o.Sessions = 16
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Server{c: c, o: o, served: make(chan struct{})}
}

// maxPacket is more than the longest request.
const maxPacket = 512

// Serve answers the datagrams of a socket, which it closes in the end. It
// returns nil once the server is closed, at once if it was before, and
// otherwise why the socket failed. A server serves one socket in its life.
func (s *Server) Serve(conn net.PacketConn) error {
	if err := s.begin(conn); err != nil {
		_ = conn.Close()
		if s.isClosed() {
			return nil
		}
		return err
	}
	defer s.finish()
	buf := make([]byte, maxPacket)
	for {
		n, from, err := conn.ReadFrom(buf)
		switch {
		case err != nil && (s.isClosed() || errors.Is(err, net.ErrClosed)):
			return nil
		case err != nil:
			return fmt.Errorf("read from UDP %s: %w", conn.LocalAddr(), err)
		case n == len(buf):
			continue // longer than any request, so cut off
		}
		s.serve(buf[:n], from)
	}
}

var errServed = errors.New("serve IPMI: the server serves a socket already")

func (s *Server) begin(conn net.PacketConn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.serving {
		return errServed
	}
	s.conn, s.serving = conn, true
	return nil
}

// finish forgets all answers that are held back.
func (s *Server) finish() {
	s.mu.Lock()
	s.closed = true
	for t := range s.late {
		t.Stop()
	}
	s.late = nil
	_ = s.conn.Close()
	s.mu.Unlock()
	close(s.served)
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close ends Serve and waits until it has returned, and so until a command that
// is being done is: its caller must hold no lock that the machine wants. It may
// be called again.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	conn := s.conn
	s.mu.Unlock()
	if conn == nil {
		return nil
	}
	err := conn.Close()
	<-s.served
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// serve answers one datagram. A fault of ours in doing so must not end the
// other thousand controllers of the process.
func (s *Server) serve(raw []byte, from net.Addr) {
	defer func() {
		if v := recover(); v != nil {
			s.o.Log.Error().Interface("panic", v).Bytes("stack", debug.Stack()).Str("machine", s.c.Machine.Spec().Name).Msg("simulated IPMI controller: request dropped")
		}
	}()
	answer := s.handle(context.Background(), raw)
	if answer == nil {
		return
	}
	if f, hit := s.c.Flaws.Hit(flaw.BMCSlow); hit {
		s.hold(answer, from, f.Delay)
		return
	}
	s.write(answer, from)
}

func (s *Server) write(b []byte, to net.Addr) {
	if _, err := s.conn.WriteTo(b, to); err != nil && !s.isClosed() {
		s.o.Log.Debug().Err(err).Msg("simulated IPMI controller: answer lost")
	}
}

// hold sends an answer later. Of too many, the last are lost.
func (s *Server) hold(answer []byte, to net.Addr, delay time.Duration) {
	const most = 64
	if delay <= 0 {
		delay = 2 * time.Second
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.late) >= most {
		return
	}
	if s.late == nil {
		s.late = map[*time.Timer]struct{}{}
	}
	var t *time.Timer
	t = time.AfterFunc(delay, func() {
		s.mu.Lock()
		_, due := s.late[t]
		delete(s.late, t)
		s.mu.Unlock()
		if due {
			s.write(answer, to)
		}
	})
	s.late[t] = struct{}{}
}

// handle returns the answer to a datagram, nil for none. What is not of the
// protocol is dropped, as is what belongs to no session.
func (s *Server) handle(ctx context.Context, raw []byte) []byte {
	for _, kind := range []flaw.Kind{flaw.BMCHang, flaw.BMCDown} {
		if _, hit := s.c.Flaws.Hit(kind); hit {
			return nil
		}
	}
	if len(raw) < 5 || raw[0] != 6 {
		return nil
	}
	off := s.c.Flaws.On("I-12")
	switch {
	case raw[3] == classASF:
		return pong(raw, !off)
	case raw[3] != classIPMI || off:
		return nil
	case raw[4] == formatPlus:
		return s.plus(ctx, raw)
	}
	return s.legacy(ctx, raw)
}
