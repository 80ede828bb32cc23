package rack

import (
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim/firmware"
	"bessemer/bmc/sim/hardware"
)

// What takes time besides POST and power, as it does with real machines.
const (
	timeReset    = time.Second      // no power cycle
	timeShutdown = 8 * time.Second  // of a system that is asked to
	timeKernel   = 10 * time.Second // of a kernel and what it starts
	timeDisks    = 5 * time.Second  // that the agent waits for disks
	timeStall    = 30 * time.Second // that a download may stand still
	timeRetry    = 30 * time.Second // before the boot devices are tried again
	timeCrash    = time.Minute      // that a ramdisk shows why its agent ended
	timeLongPOST = 10 * time.Minute // B-22
)

// What an agent must not take from the rack's pace or from the memory that its
// machine pretends to have: a busy host is slow by itself, and small.
const (
	leastStall = 10 * time.Second
	fileMemory = 16 << 20 // bytes, for a qcow2 file
)

// takes is how long something takes at the rack's pace.
func (m *Machine) takes(d time.Duration) time.Duration {
	if m.rack.opts.Pace == 0 {
		return d
	}
	return time.Duration(float64(d) * m.rack.opts.Pace)
}

// post is how long the machine's firmware takes before it boots anything.
func (m *Machine) post() time.Duration {
	if m.flaws.On("B-22") {
		return m.takes(timeLongPOST)
	}
	return m.takes(m.profile.POST)
}

// protocolOf is which protocol a machine's controller speaks.
func protocolOf(which string, p hardware.Profile, index int) string {
	switch which {
	case "":
		return p.Driver
	case mixed:
		return []string{protocolRedfish, protocolIPMI}[index%2]
	default:
		return which
	}
}

// hardware is the machine under the firmware or, with a lease, under the agent,
// for one start.
func (m *Machine) hardware(r *run, b firmware.Boot) *hardware.Machine {
	h := hardware.New(hardware.Config{
		Spec: m.spec, Profile: m.profile, Flaws: m.flaws, BootMode: m.BootMode(), BootMAC: m.spec.NICs[0].MAC,
		IP: b.Lease.IP, BMCAddress: m.bmc.addr.Addr().String(), EFI: m.efi, Start: r.number, Pace: m.rack.opts.Pace,
		OnPowerOff:  func() { m.inBand(r, bmc.ForceOff, ByAgent, "") },
		OnReboot:    func() { m.inBand(r, bmc.Reset, ByAgent, "") },
		OnPowerLoss: func() { m.losePower(r) },
		OnWrite: func(disk string, off, n int64) {
			if r.writes.add(disk, off, n) {
				m.swap(r, StageAgent, StageWriting)
			}
		},
	})
	r.connect(func() { h.Cut() })
	return h
}
