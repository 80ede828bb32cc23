package hardware

import (
	"io/fs"
	"syscall"

	"bessemer/agent/hw"
	"bessemer/bmc/sim/flaw"
)

// lyingSize is how much a disk can hold that says that it is larger (K-18).
const lyingSize = mib

// fault is asked before each access to a disk.
func (m *Machine) fault(op, name string, off, n int64) error {
	broken := &fs.PathError{Op: op, Path: name, Err: syscall.EIO}
	if m.cut.Load() {
		return broken
	}
	if op == "open" && m.planted != nil {
		return m.planted
	}
	if op != "open" && m.c.Flaws.On("K-07") {
		if d, ok := m.find(name); ok && d.standby {
			return broken
		}
	}
	if op != "write" && op != "zero" {
		return nil
	}
	if op == "write" && off+n > lyingSize && m.c.Flaws.On("K-18") {
		return &hw.Torn{Kept: lyingSize - off, Err: &fs.PathError{Op: op, Path: name, Err: syscall.ENOSPC}}
	}
	for _, kind := range []flaw.Kind{flaw.DiskError, flaw.PowerLoss} {
		if kind == flaw.PowerLoss && m.c.OnPowerLoss == nil {
			continue
		}
		if f, ok := m.c.Flaws.Find(kind); !ok || f.At < off || f.At >= off+n {
			continue
		}
		f, hit := m.c.Flaws.Hit(kind)
		if !hit {
			continue
		}
		if kind == flaw.PowerLoss {
			m.Cut()
			m.c.OnPowerLoss()
		}
		return &hw.Torn{Kept: f.At - off, Err: broken}
	}
	return nil
}

func (m *Machine) done(_, name string, off, n int64) {
	if m.c.OnWrite != nil {
		m.c.OnWrite(name, off, n)
	}
}

// busyFor is how often a disk is found busy before it is free (K-14).
const busyFor = 3

// busy implements hw.Fake's: with K-14 udev looks into a disk whenever it was
// touched.
func (m *Machine) busy(name string) bool {
	if !m.c.Flaws.On("K-14") {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[name]++
	if m.held[name] <= busyFor {
		return true
	}
	m.held[name] = 0
	return false
}
