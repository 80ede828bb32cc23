package rack

import (
	"context"
	"fmt"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/store"
)

func bootError(what, value string, err error) error {
	return fmt.Errorf("set boot %s %q: %w", what, value, err)
}

// PowerState implements sim.Machine.
func (m *Machine) PowerState() store.PowerState {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.changing:
		return ""
	case m.st.On:
		return store.PowerOn
	default:
		return store.PowerOff
	}
}

// Power implements sim.Machine: the controller asks.
func (m *Machine) Power(_ context.Context, a bmc.PowerAction) error { return m.Act(a, ByBMC) }

// Act does a power action on somebody's behalf, as Power does.
func (m *Machine) Act(a bmc.PowerAction, by By) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch a {
	case bmc.On, bmc.ForceOff:
	case bmc.SoftOff, bmc.Reset, sim.Restart:
		if !m.st.On {
			return fmt.Errorf("%s: %w", a, sim.ErrOff)
		}
	default:
		return fmt.Errorf("power action %q: %w", a, bmc.ErrUnsupported)
	}
	if m.closed {
		return fmt.Errorf("%s: the rack is closed", a)
	}
	m.note(Event{Kind: Power, By: by, What: string(a), Start: m.started})
	switch a {
	case bmc.On:
		if !m.st.On {
			m.turn(true, m.takes(m.profile.Power))
		}
	case bmc.ForceOff:
		if m.st.On {
			m.turn(false, m.takes(m.profile.Power))
		}
	case bmc.Reset:
		m.restart(m.takes(timeReset))
	case bmc.SoftOff, sim.Restart:
		m.press(a == sim.Restart)
	}
	return nil
}

// turn ends the start that is under way at once, and lets the power become on
// or off after a time. The caller holds the lock, here and below.
func (m *Machine) turn(on bool, d time.Duration) {
	m.changing = true
	m.change(on, d)
}

// restart is turn(true) that does not show in the power state.
func (m *Machine) restart(d time.Duration) {
	m.changing = false
	m.change(true, d)
}

func (m *Machine) change(on bool, d time.Duration) {
	m.end()
	m.st.On = on
	m.keepLocked()
	m.after(d, func() {
		m.changing = false
		if on {
			m.begin()
			return
		}
		m.note(Event{Kind: Off, Start: m.started})
	})
}

// after has f called in a while, with the lock held, unless something else
// becomes of the machine before.
func (m *Machine) after(d time.Duration, f func()) {
	if m.timer != nil {
		m.timer.Stop()
	}
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.timer == t && !m.closed {
			m.timer = nil
			f()
		}
	})
	m.timer = t
}

// end takes the power from the start that is under way.
func (m *Machine) end() {
	if m.run != nil {
		m.run.kill()
		m.last, m.run = m.run, nil
	}
	m.now = now{stage: StageOff}
}

// press is what the power button does: a system that runs shuts down, firmware
// turns the machine off, and one that hangs does nothing.
func (m *Machine) press(again bool) {
	next := func() {
		if again {
			m.restart(m.takes(timeReset))
		} else {
			m.turn(false, m.takes(m.profile.Power))
		}
	}
	switch m.now.stage {
	case StageRunning, StageAgent, StageWriting:
		r := m.run
		m.after(m.takes(timeShutdown), func() {
			if m.run == r {
				next()
			}
		})
	case StagePOST, StageDHCP, StageNoBoot:
		next()
	}
}

// inBand is what runs on the machine resetting it or turning it off.
func (m *Machine) inBand(r *run, a bmc.PowerAction, by By, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run != r || m.closed {
		return
	}
	m.note(Event{Kind: Power, By: by, What: string(a), Start: r.number, Text: why})
	if a == bmc.Reset {
		m.restart(m.takes(timeReset))
	} else {
		m.turn(false, m.takes(m.profile.Power))
	}
}

// losePower is a power cut that ends after a while.
func (m *Machine) losePower(r *run) {
	m.noteFaults()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run != r || m.closed {
		return
	}
	m.note(Event{Kind: Power, By: ByCut, What: "cut", Start: r.number})
	m.turn(true, 2*m.takes(m.profile.Power))
}

// resume starts a machine that was on when its rack ended.
func (m *Machine) resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.st.On {
		m.note(Event{Kind: Power, By: ByCut, What: string(bmc.On), Start: m.started})
		m.turn(true, m.takes(m.profile.Power))
	}
}

// close ends the machine as a power cut does, and waits for its end. What is
// kept still says that it is on.
func (m *Machine) close() {
	m.mu.Lock()
	m.end()
	m.keepLocked()
	m.closed = true
	if m.timer != nil {
		m.timer.Stop()
	}
	last := m.last
	m.mu.Unlock()
	if last != nil {
		<-last.ended
	}
}
