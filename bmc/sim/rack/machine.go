package rack

import (
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"bessemer/agent/hw"
	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
	"bessemer/bmc/sim/hardware"
)

// A Machine is one machine of a rack, with its controller. Its methods may be
// called concurrently.
type Machine struct {
	rack    *Rack
	index   int
	spec    sim.Spec
	profile hardware.Profile
	dir     string
	bmc     board
	flaws   *flaw.Set
	control *sim.Controller
	journal *journal
	console console
	efi     *hw.FakeEFI
	log     zerolog.Logger

	mu       sync.Mutex
	st       state
	closed   bool
	changing bool        // the power state is between on and off
	timer    *time.Timer // of what happens next without anybody's doing: a change of power, a soft off
	run      *run        // the start that is under way or over; nil without power
	last     *run        // the one before: the next waits for its end
	started  uint64      // number of the last start
	seen     map[flaw.Kind]int
	now      now
}

// now is what a machine is at.
type now struct {
	stage              Stage
	why                string
	lease              netip.Addr
	hostname, instance string
}

var _ sim.Machine = (*Machine)(nil)

// newMachine opens the machine of an index, as it was left.
func newMachine(r *Rack, index int, p hardware.Profile) (*Machine, error) {
	name := machineName(index)
	dir := filepath.Join(r.opts.Dir, name)
	m := &Machine{
		rack: r, index: index, profile: p, dir: dir,
		console: console{path: filepath.Join(dir, consoleFile)},
		log:     r.opts.Log.With().Str("machine", name).Logger(),
		now:     now{stage: StageOff},
	}
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	m.spec = p.Build(name, index, r.opts.Seed, dir)
	fresh := state{Quirks: r.opts.Quirks, Mode: m.spec.Modes[0], Next: m.spec.Modes[0]}
	m.st = fresh
	if ok, err := load(filepath.Join(dir, stateFile), &m.st); err != nil {
		return nil, err
	} else if !ok {
		m.st = fresh
	}
	m.efi = hw.NewFakeEFI(m.st.Entries, m.st.Order)
	m.efi.Changed = m.keep
	m.flaws = flaw.NewSet(m.random("flaws").Uint64(), m.st.Quirks...)
	m.control = sim.NewController(m, m.flaws)
	m.control.Pace = r.opts.Pace
	m.bmc = newBoard(m)
	var err error
	m.journal, err = openJournal(filepath.Join(dir, journalFile), m.st.Totals)
	if err != nil {
		return nil, err
	}
	m.started = m.journal.sums().Starts
	return m, nil
}

// Name is the machine's name: sim-001.
func (m *Machine) Name() string { return m.spec.Name }

// Spec implements sim.Machine.
func (m *Machine) Spec() sim.Spec { return m.spec }

// Console implements sim.Machine.
func (m *Machine) Console() string { return m.console.path }

// Flaws is what is wrong with the machine. Quirks are better turned by
// [Machine.Turn], which keeps them.
func (m *Machine) Flaws() *flaw.Set { return m.flaws }

// Controller is the machine's management controller.
func (m *Machine) Controller() *sim.Controller { return m.control }

// Turn turns quirks on or off, and keeps that.
func (m *Machine) Turn(on bool, ids ...flaw.ID) {
	m.flaws.Turn(on, ids...)
	m.keep()
}

// Boot implements sim.Machine.
func (m *Machine) Boot() bmc.Boot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.st.Override
}

// SetBoot implements sim.Machine.
func (m *Machine) SetBoot(b bmc.Boot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.setBoot(b)
}

// setBoot is SetBoot for who holds the lock.
func (m *Machine) setBoot(b bmc.Boot) error {
	if err := checkBoot(b, m.spec.Modes); err != nil {
		return err
	}
	if b.Mode != "" {
		m.st.Next = b.Mode
	}
	if b.Device == "" {
		b = bmc.Boot{}
	}
	m.st.Override = b
	m.keepLocked()
	return nil
}

// BootMode implements sim.Machine.
func (m *Machine) BootMode() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.st.Mode
}

// NextBootMode implements sim.Machine.
func (m *Machine) NextBootMode() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.st.Next
}

// SetBootMode implements sim.Machine. A start that uses up the override comes
// before or after, never in between: it would be used twice.
func (m *Machine) SetBootMode(mode string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.st.Override
	b.Mode = mode
	return m.setBoot(b)
}

// Journal returns what happened to the machine, oldest first; of a long life
// the last thousand events or so.
func (m *Machine) Journal() ([]Event, error) {
	m.noteFaults()
	return m.journal.events()
}

// note writes an event into the journal. One that cannot be written is counted
// in any case.
func (m *Machine) note(e Event) {
	if err := m.journal.add(e); err != nil {
		m.log.Error().Err(err).Msg("simulated machine's journal")
	}
	if e.Kind == Home {
		m.log.Debug().Str("hostname", e.Hostname).Msg("simulated machine runs its system")
	}
}

// noteFaults writes down the faults that have hit since it last did, wherever
// in the machine they did.
func (m *Machine) noteFaults() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range flaw.Kinds() {
		if n := m.flaws.Hits(k); n > m.seen[k] {
			m.note(Event{Kind: Fault, What: string(k), Count: n - m.seen[k], Start: m.started})
			if m.seen == nil {
				m.seen = map[flaw.Kind]int{}
			}
			m.seen[k] = n
		}
	}
}

// keep saves what survives without power.
func (m *Machine) keep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keepLocked()
}

// keepLocked is keep for who holds the lock. A state that cannot be saved is
// lost with the process only. In a closed rack nothing is saved any more: a
// request that comes too late finds another rack there, or no directory.
func (m *Machine) keepLocked() {
	if m.closed {
		return
	}
	entries, err := m.efi.Entries()
	if err == nil {
		m.st.Entries, m.st.Order = entries, m.efi.Order()
	}
	m.st.Quirks, m.st.Totals = m.flaws.Quirks(), m.journal.sums()
	if err := errors.Join(err, save(filepath.Join(m.dir, stateFile), m.st)); err != nil {
		m.log.Error().Err(err).Msg("simulated machine's state")
	}
}

// checkBoot refuses a boot setting that the machine does not have.
func checkBoot(b bmc.Boot, modes []string) error {
	switch b.Device {
	case "", bmc.PXE, bmc.Disk, bmc.CDROM:
	default:
		return bootError("device", string(b.Device), sim.ErrBootDevice)
	}
	if b.Mode != "" && !slices.Contains(modes, b.Mode) {
		return bootError("mode", b.Mode, sim.ErrBootMode)
	}
	return nil
}
