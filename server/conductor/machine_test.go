package conductor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// A machine is the world outside the appliance: a controller, and a machine
// that boots what the appliance tells it to, with an agent that speaks real
// HTTP. It outlives the conductors that a test kills.
type machine struct {
	mac, api string
	journal  func(format string, args ...any)

	mu    sync.Mutex
	power store.PowerState
	boot  bmc.Boot
	boots int
	agent *testAgent
	disk  []byte
	drive []byte

	// What goes wrong.
	ramdisk   func(context.Context) // boots this instead of a testAgent
	deaf      bool                  // never boots from the network
	mute      bool                  // boots, but its agent never calls
	fails     map[string]string     // command or step -> what the agent says
	hang      map[string]bool       // step that never ends
	loseReply map[string]int        // command -> answers to lose
	polled    bool                  // a write goes on until somebody has asked for it
	entry     any                   // what the agent says of a boot entry; nil: nothing
	writeTime time.Duration
	agents    sync.WaitGroup

	booting, writing *gauge // of a rack; nil: none
}

func newMachine(mac, api string, journal func(string, ...any)) *machine {
	return &machine{
		mac: mac, api: api, journal: journal, power: store.PowerOff,
		fails: map[string]string{}, hang: map[string]bool{}, loseReply: map[string]int{},
		writeTime: 30 * time.Millisecond,
	}
}

func (m *machine) state() store.PowerState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.power
}

// starts is how often the machine was turned on.
func (m *machine) starts() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boots
}

// content is what is on the machine's disk, and its config drive.
func (m *machine) content() (disk, drive []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk, m.drive
}

func (m *machine) setBoot(b bmc.Boot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.boot = b
	m.journal("boot device %s", b)
}

func (m *machine) act(a bmc.PowerAction) {
	m.mu.Lock()
	defer m.mu.Unlock()
	want := store.PowerOn
	if a == bmc.ForceOff || a == bmc.SoftOff {
		want = store.PowerOff
	}
	if m.power == want {
		return
	}
	m.power = want
	m.journal("%s", want)
	if m.agent != nil {
		m.agent.kill()
		m.agent = nil
	}
	if want == store.PowerOff {
		return
	}
	m.boots++
	dev := m.boot.Device
	if !m.boot.Persistent {
		m.boot = bmc.Boot{}
	}
	if dev != bmc.PXE || m.deaf {
		m.journal("boots disk")
		return
	}
	m.agent = &testAgent{m: m}
	m.booting.add(1)
	m.agents.Go(m.agent.run(m.mute))
}

// restart is what a watchdog or a power cut of a second does: the machine
// boots anew, from the network.
func (m *machine) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.journal("restarts by itself")
	if m.agent != nil {
		m.agent.kill()
	}
	m.agent = &testAgent{m: m}
	m.agents.Go(m.agent.run(m.mute))
}

// crashAgent ends the agent, and nothing else.
func (m *machine) crashAgent() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.journal("agent crashes")
	m.agent.kill()
}

// cutPower is a power cut after which the machine stays off.
func (m *machine) cutPower() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.journal("power cut")
	if m.agent != nil {
		m.agent.kill()
	}
	m.agent, m.power = nil, store.PowerOff
}

func (m *machine) stop() {
	m.act(bmc.ForceOff)
	m.agents.Wait()
}

func (m *machine) failure(name, step string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if step != "" {
		return m.fails[step]
	}
	return m.fails[name]
}

// A controller is the machine's BMC, as a driver. trouble may fail a call.
type controller struct {
	m       *machine
	trouble func(method string) error
}

func (c controller) ask(ctx context.Context, method string) error {
	if c.trouble != nil {
		if err := c.trouble(method); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (c controller) Identify(ctx context.Context) (bmc.Info, error) {
	return bmc.Info{Vendor: "Acme"}, c.ask(ctx, "identify")
}

func (c controller) PowerState(ctx context.Context) (store.PowerState, error) {
	if err := c.ask(ctx, "power state"); err != nil {
		return store.PowerError, err
	}
	return c.m.state(), nil
}

func (c controller) Power(ctx context.Context, a bmc.PowerAction) error {
	if err := c.ask(ctx, "power "+string(a)); err != nil {
		return err
	}
	c.m.act(a)
	return nil
}

func (c controller) Boot(ctx context.Context) (bmc.Boot, error) {
	if err := c.ask(ctx, "boot"); err != nil {
		return bmc.Boot{}, err
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.m.boot, nil
}

func (c controller) SetBoot(ctx context.Context, b bmc.Boot) error {
	if err := c.ask(ctx, "set boot "+string(b.Device)); err != nil {
		return err
	}
	c.m.setBoot(b)
	return nil
}

func (c controller) BootDevices(ctx context.Context) ([]bmc.BootDevice, error) {
	return []bmc.BootDevice{bmc.PXE, bmc.Disk, bmc.CDROM}, c.ask(ctx, "boot devices")
}

func (c controller) Close() error { return nil }

// A journal keeps what the outside world has seen.
type worldJournal struct {
	mu    sync.Mutex
	lines []string
}

func (j *worldJournal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *worldJournal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

func (j *worldJournal) count(line string) (n int) {
	for _, l := range j.all() {
		if l == line {
			n++
		}
	}
	return n
}
