package firmware

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// A middle stands between machines and a TFTP server and spoils what passes.
type middle struct {
	front  *net.UDPConn
	server netip.AddrPort
	from   string                   // address of its answers
	up     func(p []byte) (ok bool) // looks at what the machine sends; false: it is not passed on
	down   func(p []byte) []byte    // changes what the server sends
}

func (m *middle) addr() netip.AddrPort { return m.front.LocalAddr().(*net.UDPAddr).AddrPort() }

func (r *rig) between(t *testing.T, m *middle) {
	t.Helper()
	var err error
	if m.front, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	if m.from == "" {
		m.from = "127.0.0.1"
	}
	if !m.server.IsValid() {
		m.server = r.tftp.Addr()
	}
	var wg sync.WaitGroup
	wg.Go(func() { m.run(&wg) })
	t.Cleanup(func() { m.front.Close(); wg.Wait() })
	r.middle = m
}

// run starts a conversation for each request.
func (m *middle) run(wg *sync.WaitGroup) {
	buf := make([]byte, 70000)
	for {
		n, from, err := m.front.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if m.up != nil && !m.up(buf[:n]) || buf[1] != opRRQ {
			continue
		}
		near, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(m.from)})
		if err != nil {
			return
		}
		far, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			near.Close()
			return
		}
		_, _ = far.WriteToUDPAddrPort(buf[:n], m.server)
		c := &talk{m: m, near: near, far: far, client: from, server: m.server}
		wg.Go(c.down)
		wg.Go(c.up)
	}
}

// A talk is one transfer through a middle.
type talk struct {
	m              *middle
	near, far      *net.UDPConn
	mu             sync.Mutex
	client, server netip.AddrPort
}

const quiet4 = time.Second

func (c *talk) down() {
	defer c.near.Close()
	defer c.far.Close()
	buf := make([]byte, 70000)
	for {
		_ = c.far.SetReadDeadline(time.Now().Add(quiet4))
		n, from, err := c.far.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		c.mu.Lock()
		c.server = from
		c.mu.Unlock()
		p := buf[:n]
		if c.m.down != nil {
			p = c.m.down(p)
		}
		_, _ = c.near.WriteToUDPAddrPort(p, c.client)
	}
}

func (c *talk) up() {
	buf := make([]byte, 70000)
	for {
		n, _, err := c.near.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		c.mu.Lock()
		to := c.server
		c.mu.Unlock()
		if c.m.up == nil || c.m.up(buf[:n]) {
			_, _ = c.far.WriteToUDPAddrPort(buf[:n], to)
		}
	}
}
