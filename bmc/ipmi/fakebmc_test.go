package ipmi

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/hal"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/transport/udp"
	"github.com/bougou/go-ipmi/pkg/types"

	our "bessemer/bmc"
)

const (
	testUser     = "root"
	testPassword = "canary-0815"
)

// A machine is the machine behind a test's controller.
type machine struct {
	*mock.HAL

	mu       sync.Mutex
	on       bool
	actions  []string
	flags    *types.BootOptionParam_BootFlags
	raw      []byte // the boot flags as they came
	refuse   error  // what power actions answer
	chassis_ chassis
}

// chassis is the machine as the controller sees it. Like most, it refuses
// what is already so.
type chassis struct {
	*mock.Chassis
	m *machine
}

func newMachine() *machine {
	m := &machine{HAL: mock.New()}
	m.chassis_ = chassis{&mock.Chassis{}, m}
	return m
}

func (m *machine) Chassis() hal.ChassisHAL { return m.chassis_ }

func (c chassis) PowerState(context.Context) (bool, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.m.on, nil
}

func (c chassis) SetPower(_ context.Context, on bool) error {
	return c.m.act(map[bool]string{true: "up", false: "down"}[on], c.m.isOn() != on, on)
}

func (c chassis) ColdReset(context.Context) error { return c.m.act("reset", c.m.isOn(), true) }
func (c chassis) WarmReset(context.Context) error { return c.m.act("soft", c.m.isOn(), false) }

func (c chassis) SetBootFlags(_ context.Context, f *types.BootOptionParam_BootFlags) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.flags, c.m.raw = f, f.Pack()
	return nil
}

func (c chassis) GetBootFlags(context.Context) (*types.BootOptionParam_BootFlags, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.flags == nil {
		return nil, hal.ErrNotSupported
	}
	return c.m.flags, nil
}

func (m *machine) isOn() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on
}

func (m *machine) act(name string, possible, on bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.actions = append(m.actions, name)
	if m.refuse != nil {
		return m.refuse
	}
	if !possible {
		return types.CompletionCode(codeNotInState)
	}
	m.on = on
	return nil
}

// takeFlags returns the boot flags as they came last, and forgets them.
func (m *machine) takeFlags() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	raw := m.raw
	m.raw = nil
	return raw
}

// acted returns the power actions so far; from now on, err answers them.
func (m *machine) acted(err error) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = err
	return strings.Join(m.actions, " ")
}

// A fakeBMC is go-ipmi's controller on a loopback port.
type fakeBMC struct {
	*bmc.BMC
	*machine
	port int
}

type options struct {
	suites []types.CipherSuiteID
	maker  uint32
	no15   bool
	kg     []byte
}

func newFakeBMC(t *testing.T, o options) *fakeBMC {
	t.Helper()
	m := newMachine()
	var more []bmc.Option
	if o.no15 {
		more = append(more, bmc.WithV15Disabled())
	}
	if o.kg != nil {
		more = append(more, bmc.WithKG(o.kg))
	}
	guid := [16]byte{0x5a, 0x27, 0xb7, 0x16, 0x72, 0x4a, 0x8c, 0x40, 0x80, 0, 0, 0, 0, 0, 0, 1}
	b := bmc.New(bmc.DeviceInfo{DeviceID: 32, IPMIVersion: 0x20, ManufacturerID: o.maker}, guid, m, more...)
	u, err := b.Users.Add(2, testUser)
	if err != nil {
		t.Fatal(err)
	}
	u.SetPassword([]byte(testPassword))
	u.Enabled = true
	u.ChannelAccess[1] = bmc.UserChannelAccess{MaxPrivilege: bmc.PrivilegeLevelAdministrator, Enabled: true}
	conn, err := udp.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.suites == nil {
		o.suites = []types.CipherSuiteID{types.CipherSuiteID3, types.CipherSuiteID17}
	}
	s := server.NewServer(b, conn, server.WithCipherSuites(o.suites))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		_ = s.Close()
		<-done
	})
	return &fakeBMC{BMC: b, machine: m, port: conn.LocalAddr().(*net.UDPAddr).Port}
}

// open returns a driver for a port, quick to repeat.
func open(t *testing.T, port int, changes ...any) *driver {
	t.Helper()
	info := map[string]any{
		"ipmi_address": "127.0.0.1", "ipmi_port": port, "ipmi_username": testUser, "ipmi_password": testPassword,
	}
	for i := 0; i < len(changes); i += 2 {
		info[changes[i].(string)] = changes[i+1]
	}
	s, err := readSettings(our.Target{DriverInfo: info})
	if err != nil {
		t.Fatal(err)
	}
	s.timing.first, s.timing.max, s.timing.backOff = 100*time.Millisecond, 200*time.Millisecond, 10*time.Millisecond
	d := newDriver(s)
	t.Cleanup(func() { d.Close() })
	return d
}

// relay passes packets between drivers and a controller; tamper may change,
// drop (nil) or see them. n counts all packets, from 1.
func relay(t *testing.T, port int, tamper func(n int, toBMC bool, b []byte) []byte) int {
	t.Helper()
	front, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	r := &relayed{front: front, port: port, tamper: tamper, back: map[string]*net.UDPConn{}}
	r.wg.Go(r.forward)
	t.Cleanup(func() {
		front.Close()
		r.mu.Lock()
		for _, c := range r.back {
			c.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return front.LocalAddr().(*net.UDPAddr).Port
}

type relayed struct {
	front  *net.UDPConn
	port   int
	tamper func(int, bool, []byte) []byte

	wg   sync.WaitGroup
	mu   sync.Mutex
	n    int
	back map[string]*net.UDPConn
}

func (r *relayed) change(toBMC bool, b []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	return r.tamper(r.n, toBMC, b)
}

func (r *relayed) forward() {
	buf := make([]byte, 4096)
	for {
		n, from, err := r.front.ReadFromUDP(buf)
		if err != nil {
			return
		}
		out := r.change(true, append([]byte(nil), buf[:n]...))
		r.mu.Lock()
		c := r.back[from.String()]
		if c == nil {
			if c, err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: r.port}); err != nil {
				r.mu.Unlock()
				return
			}
			r.back[from.String()] = c
			r.wg.Go(func() { r.backward(c, from) })
		}
		r.mu.Unlock()
		if out != nil {
			_, _ = c.Write(out)
		}
	}
}

func (r *relayed) backward(c *net.UDPConn, to *net.UDPAddr) {
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if out := r.change(false, append([]byte(nil), buf[:n]...)); out != nil {
			_, _ = r.front.WriteToUDP(out, to)
		}
	}
}
