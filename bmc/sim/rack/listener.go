package rack

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// A plug is the network socket of a running agent: where it listens, and the
// connections that it took. Pulled, they are gone at once, and whoever is at
// their other end hears of it by a reset, not by an answer.
type plug struct {
	net.Listener

	mu     sync.Mutex
	pulled bool
	conns  map[*plugged]struct{}
}

type plugged struct {
	net.Conn
	plug *plug
}

func listen(at netip.AddrPort) (*plug, error) {
	ln, err := net.Listen("tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("listen for commands on the leased address: %w", err)
	}
	return &plug{Listener: ln, conns: map[*plugged]struct{}{}}, nil
}

// Accept implements net.Listener.
func (p *plug) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	in := &plugged{c, p}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pulled {
		cut(c)
		return nil, net.ErrClosed
	}
	p.conns[in] = struct{}{}
	return in, nil
}

// Close implements net.Conn.
func (c *plugged) Close() error {
	c.plug.mu.Lock()
	delete(c.plug.conns, c)
	c.plug.mu.Unlock()
	return c.Conn.Close()
}

// pull cuts everything off.
func (p *plug) pull() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pulled = true
	_ = p.Listener.Close() // the agent may have closed it
	for c := range p.conns {
		cut(c.Conn)
	}
	clear(p.conns)
}

// cut ends a connection without the other end getting what was on its way.
func cut(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // it is closed in any case
	}
	_ = c.Close()
}
