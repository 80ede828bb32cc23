package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"

	"bessemer/bmc/sim/firmware"
	"bessemer/server/api"
)

// WireSocket is the file in the data directory by which simulated machines of
// another process reach the network that they boot from.
const WireSocket = "wire.sock"

// maxSocketPath is the longest path that a unix socket may have (sun_path of
// unix(7), with a zero behind it).
const maxSocketPath = 107

// Wire is the simulated network that machines boot from: what a cable carries
// without sockets. It is nil when the provisioning interface is another.
func (s *Server) Wire() firmware.Wire {
	if !s.link.simulated() {
		return nil
	}
	return wire{s}
}

type wire struct{ s *Server }

// DHCP implements [firmware.Wire].
func (w wire) DHCP(ctx context.Context, packet []byte, port int) ([]byte, error) {
	return w.s.dhcp.Deliver(ctx, packet, port)
}

// TFTP implements [firmware.Wire].
func (w wire) TFTP() netip.AddrPort {
	if w.s.tftp == nil {
		return netip.AddrPort{}
	}
	return w.s.tftp.Addr()
}

// Ramdisk implements [firmware.Wire].
func (w wire) Ramdisk() (kernel, initrd string) { return w.s.ramdisk.sums() }

// openWire serves the simulated network to racks of other processes of the
// same user.
func (s *Server) openWire() error {
	if !s.link.simulated() {
		return nil
	}
	path := s.Config.Path(WireSocket)
	l, err := listenUnix(path)
	if err != nil {
		return fmt.Errorf("open the simulated network: %w", err)
	}
	s.closers = append(s.closers, l)
	s.listeners = append(s.listeners, api.Listener{Name: "wire", Address: path})
	h := firmware.Handler(s.Wire())
	s.Add("wire", func(ctx context.Context) error { return s.serveHTTP(ctx, l, h, "", "") })
	return nil
}

// listenUnix listens on a socket that only this user may open. One that a
// process left which was killed is replaced: the store's lock says that nobody
// else serves this directory.
func listenUnix(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%s is longer than the %d bytes that the path of a socket may have; choose a shorter --data-dir", path, maxSocketPath)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
