package ipmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	goipmi "github.com/vmware/goipmi"

	"bessemer/bmc"
)

// legacy is a session of IPMI 1.5 by goipmi's lan transport; never by its
// lanplus, which runs a program with the password in its arguments. The
// library knows no context, waits five seconds for each packet, sends none
// twice, and panics on some answers. So each call runs in a goroutine of its
// own, which the session waits for in the end; one that panics or outlives
// its context ends the session, not the process.
type legacy struct {
	client *goipmi.Client
	calls  *sync.WaitGroup
}

// openLegacy opens a session. A controller drops the packets of a wrong
// password without a word, and so does a network; what tells them apart is
// whether the controller answers a question that needs no password.
func openLegacy(ctx context.Context, s settings, calls *sync.WaitGroup) (*legacy, error) {
	err := errSilent
	for try := 0; try < 2 && ctx.Err() == nil; try++ {
		l := &legacy{calls: calls}
		err = l.guard(ctx, func() (err error) {
			// A new client each time: the old one may still be in use.
			c, err := goipmi.NewClient(&goipmi.Connection{
				Hostname: s.host, Port: s.port, Username: s.user, Password: s.password, Interface: "lan",
			})
			if err != nil {
				return err
			}
			if err := c.Open(); err != nil {
				return errors.Join(err, c.Close())
			}
			l.client = c
			return nil
		})
		if err == nil {
			return l, nil
		}
		if !isLost(err) {
			break
		}
	}
	return nil, explainLegacy(ctx, s, err)
}

func explainLegacy(ctx context.Context, s settings, err error) error {
	err = bmc.Scrub(err, s.password)
	var refused goipmi.CompletionCode
	switch {
	case ctx.Err() != nil:
		return endedErr(ctx)
	case errors.As(err, &refused) && refused == codeNoPrivilege:
		return fmt.Errorf("open IPMI 1.5 session: the controller offers no MD5 authentication, or the user has not the privilege: %w", err)
	case errors.As(err, &refused) && refused == 0x81: // sections 22.16 and 22.17
		return fmt.Errorf("open IPMI 1.5 session as %q: the user is unknown, or there is no room for another session: %w", s.user, err)
	case errors.As(err, &refused) && (refused == 0x82 || refused == 0x85):
		return fmt.Errorf("open IPMI 1.5 session as %q: %w: %w", s.user, bmc.ErrCredentials, err)
	case !isLost(err):
		return fmt.Errorf("open IPMI 1.5 session: %w", err)
	}
	l, derr := dial(ctx, s.address(), s.timing)
	if derr != nil {
		return derr
	}
	defer l.close()
	if _, perr := probe(ctx, l, s.privilege); perr != nil {
		return perr
	}
	return fmt.Errorf("open IPMI 1.5 session as %q: %w: the controller answers, but not to this login", s.user, bmc.ErrCredentials)
}

// guard runs fn and waits for it, but not beyond ctx.
func (l *legacy) guard(ctx context.Context, fn func() error) error {
	done := make(chan error, 1)
	l.calls.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				done <- fmt.Errorf("%w: %v", errMalformed, v)
			}
		}()
		done <- fn()
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return endedErr(ctx)
	}
}

// send sends a command and returns the data of its answer.
func (l *legacy) send(ctx context.Context, cmd command, data ...byte) ([]byte, error) {
	answer := &rawAnswer{}
	err := l.guard(ctx, func() error {
		return l.client.Send(&goipmi.Request{
			NetworkFunction: goipmi.NetworkFunction(cmd.netFn), Command: goipmi.Command(cmd.id), Data: rawRequest(data),
		}, answer)
	})
	var refused goipmi.CompletionCode
	switch {
	case errors.As(err, &refused) && refused != 0:
		return nil, &completionError{cmd.name, byte(refused)}
	case err != nil && isTimeout(err):
		return nil, fmt.Errorf("%s: %w: %w", cmd.name, bmc.ErrUnreachable, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", cmd.name, err)
	}
	return answer.data, nil
}

func isTimeout(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

// end closes the session.
func (l *legacy) end(ctx context.Context) error {
	return l.guard(ctx, func() error { return l.client.Close() })
}

func (l *legacy) close() error { return nil } // the library closes its socket itself

// rawRequest and rawAnswer carry bytes through the library's coding.
type rawRequest []byte

// MarshalBinary implements [encoding.BinaryMarshaler].
func (r rawRequest) MarshalBinary() ([]byte, error) { return r, nil }

type rawAnswer struct{ data []byte }

// Code implements [goipmi.Response].
func (r *rawAnswer) Code() uint8 { return 0 }

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]; the first byte is
// the completion code.
func (r *rawAnswer) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		return errMalformed
	}
	r.data = append([]byte(nil), b[1:]...)
	return nil
}
