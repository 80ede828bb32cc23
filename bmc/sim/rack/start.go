package rack

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim/flaw"
)

// A run is one start of a machine, until its power is taken.
type run struct {
	number uint64
	ctx    context.Context // ends with the power
	cancel context.CancelFunc
	dead   atomic.Bool
	ended  chan struct{} // closed when nothing of the start goes on in a goroutine
	before *run          // what must have ended first
	exited bool          // a boot script has handed on to the next device

	writes tallies

	mu  sync.Mutex
	off []func() // what ends with the power, before anybody is told
}

// kill takes the power: first nothing reaches the disks and the network any
// more, then whoever still works is told.
func (r *run) kill() {
	r.dead.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, off := range r.off {
		off()
	}
	r.cancel()
}

// connect has off called when the power goes; at once if it is gone.
func (r *run) connect(off func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off = append(r.off, off)
	if r.dead.Load() {
		off()
	}
}

// disconnect lets go of everything that was connected: none of it is used any
// more.
func (r *run) disconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off = nil
}

// release lets go of what the goroutine of a start needed.
func (r *run) release() {
	r.cancel()
	r.disconnect()
}

// sleep waits; it reports whether the machine still has power.
func (r *run) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return !r.dead.Load()
	case <-r.ctx.Done():
		return false
	}
}

// begin starts the machine. The caller holds the lock.
func (m *Machine) begin() {
	ctx, cancel := context.WithCancel(context.Background()) // the machine's power ends it, and close does
	m.started++
	r := &run{number: m.started, ctx: ctx, cancel: cancel, ended: make(chan struct{}), before: m.last}
	m.run, m.last = r, nil
	m.now = now{stage: StagePOST}
	go m.live(r) // close waits for it
}

// live is a start from power-on to a running system, or to where it hangs.
func (m *Machine) live(r *run) {
	defer close(r.ended)
	defer r.release()
	defer m.survive(r)
	if r.before != nil {
		<-r.before.ended
		r.before = nil
	}
	if r.dead.Load() {
		return
	}
	m.note(Event{Kind: Begin, Start: r.number, What: m.NextBootMode()})
	m.console.trim()
	if _, hit := m.flaws.Hit(flaw.NoPOST); hit {
		m.noteFaults()
		m.hang(r, "no POST")
		return
	}
	if !r.sleep(m.post()) {
		return
	}
	b, ok := m.takeBoot(r)
	for said := ""; ok; {
		why := m.tryDevices(r, bootOrder(b.Device))
		if why == "" {
			return
		}
		m.reach(r, now{stage: StageNoBoot, why: why})
		if why != said {
			m.note(Event{Kind: Hang, Start: r.number, Text: "no bootable device: " + why})
			said = why
		}
		b.Device = "" // the override was for one try
		ok = r.sleep(m.takes(timeRetry))
	}
}

// survive keeps a panic to the machine that it happened in.
func (m *Machine) survive(r *run) {
	if p := recover(); p != nil {
		m.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("simulated machine panicked")
		m.hang(r, fmt.Sprintf("panic: %v", p))
	}
}

// takeBoot is the firmware reading the boot setting: an override for one boot
// is used up.
func (m *Machine) takeBoot(r *run) (b bmc.Boot, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run != r {
		return b, false
	}
	m.st.Mode = m.st.Next
	b = m.st.Override
	b.Mode = m.st.Mode
	if !b.Persistent {
		m.st.Override = bmc.Boot{}
	}
	b = m.control.Heeds(b) // tells the controller of the start as well
	m.keepLocked()
	return b, true
}

// bootOrder is the order in which devices are tried: the override, then disk
// and network.
func bootOrder(first bmc.BootDevice) []bmc.BootDevice {
	if first == bmc.PXE {
		return []bmc.BootDevice{bmc.PXE, bmc.Disk}
	}
	return []bmc.BootDevice{bmc.Disk, bmc.PXE}
}

// tryDevices boots the first device that does; why says for each that does not
// what is wrong with it, and is "" when one did or the start is over.
func (m *Machine) tryDevices(r *run, order []bmc.BootDevice) (why string) {
	var whys []string
	for _, d := range order {
		try := m.bootDisk
		if d == bmc.PXE {
			try = m.bootNetwork
		}
		err := try(r)
		r.disconnect() // a machine that finds nothing tries again for days
		switch {
		case r.dead.Load(), err == nil:
			return ""
		case errors.Is(err, errHangs):
			m.hang(r, err.Error())
			return ""
		}
		whys = append(whys, fmt.Sprintf("%s: %v", d, err))
		fmt.Fprintf(&m.console, "%s: %v\r\n", d, err)
	}
	return strings.Join(whys, "; ")
}

// errHangs is wrapped when a device was started and the machine stands still.
var errHangs = errors.New("hangs")

// hang leaves the machine standing still until its power is cut.
func (m *Machine) hang(r *run, why string) {
	m.reach(r, now{stage: StageHung, why: why})
	m.note(Event{Kind: Hang, Start: r.number, Text: why})
	fmt.Fprintf(&m.console, "%s\r\n", why)
}

// reach says what the machine is at, if it is still at this start.
func (m *Machine) reach(r *run, n now) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == r {
		if !n.lease.IsValid() {
			n.lease = m.now.lease
		}
		m.now = n
	}
}
