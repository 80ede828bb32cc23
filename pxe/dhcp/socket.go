package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// sockets are one interface's: port 67, in proxy mode port 4011 too, and a
// packet socket to send frames.
type sockets struct {
	index   int
	address netip.Addr
	conns   map[int]*net.UDPConn // by port
	raw     int

	mu     sync.RWMutex
	closed bool
}

const receiveBuffer = 4 << 20

// Advice is what to do when a socket below 1024, or a packet socket, is refused.
const advice = "run as root, or give the program the right: setcap cap_net_bind_service,cap_net_raw+ep"

func openSockets(c Config) (*sockets, error) {
	ifi, err := net.InterfaceByName(c.Interface)
	if err != nil {
		return nil, fmt.Errorf("dhcp: interface %s: %w; `ip link` lists what there is", c.Interface, err)
	}
	s := &sockets{index: ifi.Index, address: c.Address, conns: map[int]*net.UDPConn{}, raw: -1}
	wanted := []int{portServer}
	if c.Mode == Proxy {
		wanted = append(wanted, portProxy)
	}
	var errs []error
	for _, port := range wanted {
		conn, err := listen(c.Interface, port)
		if err != nil {
			errs = append(errs, explain(c.Interface, port, err))
			continue
		}
		s.conns[port] = conn
	}
	// Protocol 0: it receives nothing, it only sends.
	s.raw, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		errs = append(errs, fmt.Errorf("dhcp: open packet socket: %w; %s", err, advice))
	}
	if len(errs) > 0 {
		s.close()
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// listen binds a port to one interface. SO_REUSEADDR is left off on purpose:
// so the kernel tells us of another server on the port.
func listen(ifname string, port int) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		cerr := c.Control(func(fd uintptr) {
			err = unix.BindToDevice(int(fd), ifname)
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) // as much as is allowed
		})
		return errors.Join(err, cerr)
	}}
	pc, err := lc.ListenPacket(context.Background(), "udp4", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		return nil, err
	}
	return pc.(*net.UDPConn), nil
}

func explain(ifname string, port int, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		who := holder(port)
		return fmt.Errorf("dhcp: port %d on %s is in use by %s: stop it, or keep it and set dhcp.mode to off", port, ifname, who)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("dhcp: port %d on %s: permission denied: %s", port, ifname, advice)
	}
	return fmt.Errorf("dhcp: listen on port %d of %s: %w", port, ifname, err)
}

// send sends a reply from our address and the port that was asked. Replies
// that waited for the store may come after close: they are not sent.
func (s *sockets) send(t target, port int, data []byte) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return net.ErrClosed
	}
	if t.mac != nil {
		return s.sendFrame(t, port, data)
	}
	oob := (&ipv4.ControlMessage{Src: netIP(s.address), IfIndex: s.index}).Marshal()
	if _, _, err := s.conns[port].WriteMsgUDPAddrPort(data, oob, t.to); err != nil {
		return fmt.Errorf("send to %s: %w", t.to, err)
	}
	return nil
}

func (s *sockets) sendFrame(t target, port int, data []byte) error {
	to := &unix.SockaddrLinklayer{Protocol: 0x0008, Ifindex: s.index, Halen: 6} // ETH_P_IP in network order
	copy(to.Addr[:], t.mac)
	p := datagram(netip.AddrPortFrom(s.address, uint16(port)), t.to, data)
	if err := unix.Sendto(s.raw, p, 0, to); err != nil {
		return fmt.Errorf("send frame to %s: %w", t.mac, err)
	}
	return nil
}

func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for _, c := range s.conns {
		_ = c.Close()
	}
	if s.raw >= 0 {
		_ = unix.Close(s.raw)
	}
}
