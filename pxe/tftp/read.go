package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/pin/tftp/v3"

	"bessemer/pxe"
	"bessemer/store"
)

// The texts of these errors go to the client, so they are fixed.
var (
	errNotFound = errors.New("file not found")
	errBusy     = errors.New("busy, try again")
	errWrite    = errors.New("writing is not allowed")
	errInternal = errors.New("internal error")
	errStopping = errors.New("server stops")
)

// lookup finds a file by the name that a client sent. The name is untrusted
// and used for nothing but the map: there is no way out of it.
func lookup(files map[string][]byte, name string) (string, []byte, bool) {
	name = strings.TrimPrefix(name, "/")
	content, ok := files[name]
	return name, content, ok
}

// write refuses a write request.
func (s *Server) write(string, io.WriterTo) error { return errWrite }

// read serves one read request. A panic ends that transfer only.
func (s *Server) read(name string, rf io.ReaderFrom) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error().Any("panic", r).Bytes("stack", debug.Stack()).Msg("transfer dropped")
			err = errInternal
		}
	}()
	out, ok := rf.(tftp.OutgoingTransfer)
	if !ok {
		return errInternal
	}
	remote := out.RemoteAddr()
	from := remote.AddrPort().Addr().Unmap()
	mac, known := s.cfg.Owner(from)
	release, ok := s.limit.Take(from, known)
	if !ok {
		return errBusy
	}
	defer release()
	t := transfer{from: from, machine: pxe.Machine{MAC: mac, IP: remote.IP, Arch: pxe.NoArch, What: "TFTP"}}
	t.name, t.content, ok = lookup(s.cfg.Files, name)
	if !ok {
		s.log.Debug().Stringer("from", from).Str("file", shown(name)).Msg("no such file")
		return errNotFound
	}
	t.machine.What = "TFTP " + t.name
	return s.send(t, rf, out)
}

type transfer struct {
	from    netip.Addr
	machine pxe.Machine
	name    string
	content []byte
}

func (s *Server) send(t transfer, rf io.ReaderFrom, out tftp.OutgoingTransfer) error {
	begun := time.Now()
	ctx, boot := s.onBehalf(t.machine)
	seq := s.recordRequest(ctx, boot, t)
	out.SetSize(int64(len(t.content)))
	n, err := rf.ReadFrom(&body{bytes.NewReader(t.content), s.stop})
	probe := n == int64(0) && err != nil && strings.Contains(err.Error(), "sending block 0: code=")
	s.recordReply(ctx, boot, t, reply{seq, begun, n, err, probe})
	l := s.log.Debug().Stringer("from", t.from).Str("file", t.name).Int64("bytes", n).Dur("took", time.Since(begun))
	if err != nil && !probe {
		l = l.Err(err)
	}
	l.Msg("sent")
	if err != nil && !probe {
		return fmt.Errorf("transfer ended: %w", errInternal)
	}
	return nil
}

// onBehalf finds the node that a machine belongs to.
func (s *Server) onBehalf(m pxe.Machine) (context.Context, pxe.Boot) {
	if m.MAC == nil {
		return s.stop, pxe.Boot{}
	}
	b := s.cfg.Booter.Boot(s.stop, m)
	return store.WithScope(s.stop, store.Scope{Trace: b.Trace, Node: b.Node, Run: b.Run}), b
}

// A body is a file's content that ends early when the server stops.
type body struct {
	*bytes.Reader
	stop context.Context
}

func (b *body) Read(p []byte) (int, error) {
	if b.stop.Err() != nil {
		return 0, errStopping
	}
	return b.Reader.Read(p)
}

// shown is a client's file name for a log line.
func shown(name string) string {
	if len(name) > 64 {
		name = name[:64] + "..."
	}
	return strings.ToValidUTF8(name, "?")
}
