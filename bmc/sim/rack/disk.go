package rack

import (
	"fmt"

	"bessemer/bmc/sim/firmware"
)

// bootDisk boots the first disk that has something to boot. A system that does
// not come up hangs; firmware does not notice that.
func (m *Machine) bootDisk(r *run) error {
	s, err := m.hardware(r, firmware.Boot{}).Boot(r.ctx)
	if r.dead.Load() || s.From == "" && err != nil {
		return err
	}
	m.note(Event{Kind: Boot, Start: r.number, What: viaDisk, Disk: s.Disk, Text: s.From})
	m.reach(r, now{stage: StageKernel})
	if !r.sleep(m.takes(timeKernel)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the system from %s of %s %w: %w", s.From, s.Disk, errHangs, err)
	}
	m.note(Event{Kind: Home, Start: r.number, Disk: s.Disk, Hostname: s.Hostname, Instance: s.InstanceUUID, Text: s.Config})
	m.reach(r, now{stage: StageRunning, hostname: s.Hostname, instance: s.InstanceUUID})
	fmt.Fprintf(&m.console, "%s login:\r\n", s.Hostname)
	return nil
}
