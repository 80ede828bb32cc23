package hardware

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"bessemer/agent/hw"
	"bessemer/agent/wire"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
)

// Config is one start of a machine.
type Config struct {
	Spec    sim.Spec
	Profile Profile
	Flaws   *flaw.Set // asked each time, so that quirks can be turned while the machine runs; nil: none

	BootMode   string     // of this start: sim.UEFI or sim.BIOS
	BootMAC    string     // of the card that it was booted from; "" for none
	IP         netip.Addr // of that card; the zero Addr: the firmware looks, no ramdisk runs
	BMCAddress string
	EFI        *hw.FakeEFI // the variables, kept by the caller; nil on a machine without
	Start      uint64      // how often the machine has started; quirks that change with each start go by it
	Pace       float64     // what takes time takes so many times as long; 0: 1

	OnPowerOff, OnReboot func()
	// OnPowerLoss is called when a power-loss fault hits a write; nil leaves
	// those faults to the caller.
	OnPowerLoss func()
	// OnWrite hears of what was written to a disk, zeroed or discarded.
	OnWrite func(disk string, off, n int64)
	// Log holds what log.collect_system_logs gets, by name.
	Log map[string]string
}

// A Machine is the hardware of a simulated machine during one start, as an
// agent sees it. Its disks are sparse files.
type Machine struct {
	*hw.Fake
	c     Config
	disks []device
	began time.Time
	skew  time.Duration // of a clock-jump
	cut   atomic.Bool   // the power is gone

	planted error // why the disks are not as quirks want them

	mu   sync.Mutex
	held map[string]int // how often a disk has been found busy since it last was not (K-14)
}

var _ hw.Machine = (*Machine)(nil)

// New returns a machine that has just started. With an IP, a ramdisk runs on
// it, and what former owners left on its disks is put there (K-08, K-09, K-23,
// K-25); an error of that shows when the disk is opened.
func New(c Config) *Machine {
	if c.Pace == 0 {
		c.Pace = 1
	}
	m := &Machine{c: c, disks: disksOf(c), began: time.Now(), held: map[string]int{}}
	m.Fake = &hw.Fake{
		Hardware: inventory(c), Alter: m.alter, Path: m.path, Firmware: c.EFI, LogText: c.Log, Volatile: true,
		Fault: m.fault, Done: m.done, Busy: m.busy, BusyPause: m.takes(200 * time.Millisecond),
		OnPowerOff: c.OnPowerOff, OnReboot: c.OnReboot,
	}
	if !c.IP.IsValid() {
		return m // firmware has no use for the clock, and a start is counted once
	}
	if f, hit := c.Flaws.Hit(flaw.ClockJump); hit {
		m.skew = f.Delay
	}
	m.plant()
	return m
}

func (m *Machine) takes(d time.Duration) time.Duration {
	return time.Duration(float64(d) * m.c.Pace)
}

// Now is the machine's clock. It is five hours ahead with A-03, and off by a
// clock-jump.
func (m *Machine) Now() time.Time {
	t := time.Now().Add(m.skew)
	if m.c.Flaws.On("A-03") {
		t = t.Add(5 * time.Hour)
	}
	return t
}

// Cut takes the power away: nothing is read or written any more.
func (m *Machine) Cut() { m.cut.Store(true) }

// BootMode is the mode that the machine has really booted in. With U-07 that is
// the other one than was asked for.
func (m *Machine) BootMode() string {
	if !m.c.Flaws.On("U-07") {
		return m.c.BootMode
	}
	if m.c.BootMode == sim.BIOS {
		return sim.UEFI
	}
	return sim.BIOS
}

// alter applies the quirks to what the hardware reports.
func (m *Machine) alter(inv *wire.Inventory) {
	inv.Boot.CurrentBootMode = m.BootMode()
	inv.Disks = nil
	for _, d := range m.quirky() {
		inv.Disks = append(inv.Disks, d.Disk)
	}
	for _, q := range inventoryQuirks {
		if m.c.Flaws.On(q.id) {
			q.apply(inv)
		}
	}
}
