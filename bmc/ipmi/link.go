package ipmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"bessemer/bmc"
)

// errSilent is what remains when all tries of a packet got no answer.
var errSilent = errors.New("no packet came back")

// A link is a UDP socket that only the controller's packets reach.
type link struct {
	conn net.Conn
	t    timing
	buf  [4096]byte
	out  int64 // bytes of the last exchange
	in   int64
}

func dial(ctx context.Context, address string, t timing) (*link, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", bmc.ErrUnreachable, err)
	}
	return &link{conn: conn, t: t}, nil
}

func (l *link) close() error { return l.conn.Close() }

// ask sends a packet, and again while no answer comes that take accepts. make
// is called for each try, as a packet of a session must not be sent twice
// with one number. An error of take is the answer.
func (l *link) ask(ctx context.Context, make func() ([]byte, error), take func([]byte) (ok bool, err error)) error {
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	wait := l.t.first
	err := errSilent
	for try := 0; try < l.t.tries && ctx.Err() == nil; try++ {
		var raw []byte
		if raw, err = make(); err != nil {
			return err
		}
		if err = l.try(ctx, raw, wait, take); err == nil || !isLost(err) {
			return err
		}
		if errors.Is(err, syscall.ECONNREFUSED) && try > 0 {
			break // nothing listens there; twice, as it may just restart
		}
		wait = min(wait*3/2, l.t.max)
	}
	if ctx.Err() != nil {
		return endedErr(ctx)
	}
	return fmt.Errorf("%w on UDP: %w", bmc.ErrUnreachable, err)
}

// endedErr is the error of a call whose context has ended. A controller that
// did not answer before the deadline is unreachable; one that we ceased to
// wait for may not be.
func endedErr(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", bmc.ErrUnreachable, ctx.Err())
}

func (l *link) try(ctx context.Context, raw []byte, wait time.Duration, take func([]byte) (bool, error)) error {
	if err := l.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	if ctx.Err() != nil { // the deadline that ended it was just overwritten
		return errSilent
	}
	if _, err := l.conn.Write(raw); err != nil {
		return err
	}
	l.out = int64(len(raw))
	for {
		n, err := l.conn.Read(l.buf[:])
		if err != nil {
			return err
		}
		l.in = int64(n)
		if ok, err := take(l.buf[:n]); ok || err != nil {
			return err
		}
	}
}

// isLost reports whether an error means that a packet, or its answer, was
// lost.
func isLost(err error) bool {
	var slow net.Error
	return errors.Is(err, errSilent) || errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &slow) && slow.Timeout()
}
