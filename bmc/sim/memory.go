package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// Memory is a machine of a few fields: it has power and a boot override, and
// boots nothing.
type Memory struct {
	spec  Spec
	delay time.Duration

	mu     sync.Mutex
	fw     firmware
	on     bool
	change *time.Timer // while the power state changes
}

var _ Machine = (*Memory)(nil)

// NewMemory returns a machine that is off. Each change of its power takes
// delay, during which its power state is "". It has both boot modes unless spec
// says which.
func NewMemory(spec Spec, delay time.Duration) *Memory {
	if len(spec.Modes) == 0 {
		spec.Modes = []string{UEFI, BIOS}
	}
	return &Memory{spec: spec, delay: delay, fw: newFirmware(spec.Modes)}
}

// Use has the machine's starts go as the quirks of its controller have it.
func (m *Memory) Use(c *Controller) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fw.ctl = c
}

// Spec implements Machine.
func (m *Memory) Spec() Spec { return m.spec }

// Console implements Machine: there is none.
func (m *Memory) Console() string { return "" }

// PowerState implements Machine.
func (m *Memory) PowerState() store.PowerState {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.change != nil:
		return ""
	case m.on:
		return store.PowerOn
	default:
		return store.PowerOff
	}
}

// Power implements Machine.
func (m *Memory) Power(_ context.Context, a bmc.PowerAction) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch a {
	case bmc.On:
		if !m.on {
			m.turn(true)
		}
	case bmc.ForceOff:
		if m.on {
			m.turn(false)
		}
	case bmc.SoftOff, bmc.Reset, Restart:
		if !m.on {
			return fmt.Errorf("%s: %w", a, ErrOff)
		}
		m.turn(a != bmc.SoftOff)
	default:
		return fmt.Errorf("power action %q: %w", a, bmc.ErrUnsupported)
	}
	return nil
}

// turn lets the power become on after the delay. The machine starts at the end
// of it, so an override set meanwhile still counts.
func (m *Memory) turn(on bool) {
	m.on = on
	if m.change != nil {
		m.change.Stop()
		m.change = nil
	}
	if m.delay == 0 {
		m.settle()
		return
	}
	var t *time.Timer
	t = time.AfterFunc(m.delay, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.change == t {
			m.change = nil
			m.settle()
		}
	})
	m.change = t
}

func (m *Memory) settle() {
	if m.on {
		m.fw.start()
	}
}

// Boot implements Machine.
func (m *Memory) Boot() bmc.Boot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fw.override
}

// SetBoot implements Machine.
func (m *Memory) SetBoot(b bmc.Boot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fw.setBoot(b)
}

// BootMode implements Machine.
func (m *Memory) BootMode() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fw.mode
}

// NextBootMode implements Machine.
func (m *Memory) NextBootMode() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fw.next
}

// SetBootMode implements Machine.
func (m *Memory) SetBootMode(mode string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fw.setMode(mode)
}

// Starts lists what the machine booted from at each start, oldest first; the
// Device is "" where it followed its own order.
func (m *Memory) Starts() []bmc.Boot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]bmc.Boot(nil), m.fw.started...)
}
