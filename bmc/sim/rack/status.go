package rack

import (
	"bessemer/bmc/sim/flaw"
	"bessemer/store"
)

// A Stage is what a machine is at.
type Stage string

// Stages.
const (
	StageOff     Stage = "off"
	StagePOST    Stage = "post"
	StageDHCP    Stage = "dhcp"    // network boot, up to the kernel
	StageNoBoot  Stage = "no boot" // nothing boots; it tries again in a while
	StageKernel  Stage = "kernel"
	StageAgent   Stage = "agent"
	StageWriting Stage = "writing" // the agent writes to a disk
	StageRunning Stage = "running" // the system on its disk
	StageHung    Stage = "hung"
)

// A Status is how a machine stands.
type Status struct {
	Name     string           `json:"name"`
	Profile  string           `json:"profile"`
	Power    store.PowerState `json:"power"` // "" while it changes
	Stage    Stage            `json:"stage"`
	Why      string           `json:"why,omitempty"` // it hangs or does not boot
	Hostname string           `json:"hostname,omitempty"`
	Instance string           `json:"instance,omitempty"`
	Lease    string           `json:"lease,omitempty"`
	BMC      string           `json:"bmc"` // its controller's URL
	MACs     []string         `json:"macs"`
	Quirks   []flaw.ID        `json:"quirks,omitempty"`
	Faults   []flaw.Fault     `json:"faults,omitempty"`
	Totals   Totals           `json:"totals"`
}

// Status returns how the machine stands.
func (m *Machine) Status() Status {
	m.noteFaults()
	power := m.PowerState()
	m.mu.Lock()
	n := m.now
	m.mu.Unlock()
	s := Status{
		Name: m.Name(), Profile: m.profile.Name, Power: power,
		Stage: n.stage, Why: n.why, Hostname: n.hostname, Instance: n.instance,
		BMC: m.bmc.url(), MACs: m.macs(), Quirks: m.flaws.Quirks(), Faults: m.flaws.Faults(), Totals: m.journal.sums(),
	}
	if n.lease.IsValid() {
		s.Lease = n.lease.String()
	}
	return s
}

func (m *Machine) macs() (macs []string) {
	for _, n := range m.spec.NICs {
		macs = append(macs, n.MAC)
	}
	return macs
}

// swap goes from one stage to another, if the machine is at the first.
func (m *Machine) swap(r *run, from, to Stage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == r && m.now.stage == from {
		m.now.stage = to
	}
}
