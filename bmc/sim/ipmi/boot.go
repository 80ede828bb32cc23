package ipmi

import (
	"slices"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
)

// bootOptions are the system boot options (section 28.12), as far as the
// machine does not keep them.
type bootOptions struct {
	progress byte
	clearing byte // parameter 3
	keep     bool // of parameter 3: the valid bit is not to be cleared after 60 s
	ack      [2]byte
	flags    [5]byte  // as they were set last
	set      bmc.Boot // what that made of the machine
	at       time.Time
	acted    bool // a Chassis Control came since
}

// Parameters, and bits of the boot flags (table 28-14).
const (
	paramProgress = 0
	paramClearing = 3
	paramAck      = 4
	paramFlags    = 5

	flagValid      = 0x80
	flagPersistent = 0x40
	flagEFI        = 0x20

	selectRemoteDisk = 0x24
)

var selectors = map[byte]bmc.BootDevice{
	0x04: bmc.PXE, 0x08: bmc.Disk, 0x0c: bmc.Safe, 0x14: bmc.CDROM, 0x18: bmc.BIOSSetup, selectRemoteDisk: bmc.Disk,
}

// validity is how long boot flags are valid unless a Chassis Control comes.
const validity = 60 * time.Second

// setBootOption is Set System Boot Options.
func (s *Server) setBootOption(c call) ([]byte, byte) {
	param, data := c.data[0]&0x7f, c.data[1:]
	least, known := map[byte]int{paramProgress: 1, paramClearing: 1, paramAck: 2, paramFlags: 5}[param]
	switch {
	case !known:
		return nil, codeNoParameter
	case len(data) == 0:
		return nil, 0 // only marks the parameter
	case len(data) < least:
		return nil, codeLength
	}
	switch param {
	case paramProgress:
		s.boot.progress = data[0] & 3
	case paramClearing:
		s.boot.clearing, s.boot.keep = data[0]&0x1f, data[0]&0x08 != 0
	case paramAck:
		s.boot.ack = [2]byte(data)
	case paramFlags:
		return nil, s.setFlags([5]byte(data))
	}
	return nil, 0
}

// setFlags takes boot flags over into the machine. A controller may refuse a
// lasting device (B-04).
func (s *Server) setFlags(flags [5]byte) byte {
	b, ok := s.meaning(flags)
	if !ok || b.Persistent && s.c.Flaws.On("B-04") {
		return codeField
	}
	if err := s.c.Machine.SetBoot(b); err != nil {
		return codeField
	}
	s.boot.flags, s.boot.set = flags, s.c.Machine.Boot()
	s.boot.at, s.boot.acted = s.o.Now(), false
	return 0
}

// meaning is what boot flags make of the machine. A device without the EFI bit
// is booted in legacy mode by a machine that has it. There are controllers
// that look at that bit even when no device is set, and so turn a machine to
// legacy mode as they clear the device (I-01), and those for which a disk
// under UEFI is the remote one: the other selector boots the network (I-02).
func (s *Server) meaning(flags [5]byte) (b bmc.Boot, ok bool) {
	mode := sim.BIOS
	if flags[0]&flagEFI != 0 {
		mode = sim.UEFI
	}
	modes := s.c.Machine.Spec().Modes
	if len(modes) > 0 && !slices.Contains(modes, mode) {
		mode = ""
	}
	selector := flags[1] & 0x3c
	if flags[0]&flagValid == 0 || selector == 0 {
		if !s.c.Flaws.On("I-01") {
			mode = ""
		}
		return bmc.Boot{Mode: mode}, true
	}
	b = bmc.Boot{Device: selectors[selector], Mode: mode, Persistent: flags[0]&flagPersistent != 0}
	if selector == 0x08 && mode == sim.UEFI && s.c.Flaws.On("I-02") {
		b.Device = bmc.PXE
	}
	return b, b.Device != ""
}

// expireBoot clears boot flags whose time is over. Those that something else
// has set meanwhile are let be.
func (s *Server) expireBoot() {
	o := &s.boot
	if o.keep || o.acted || o.set.Device == "" || s.o.Now().Sub(o.at) < validity {
		return
	}
	if s.c.Machine.Boot() == o.set {
		_ = s.c.Machine.SetBoot(bmc.Boot{}) // which no machine refuses
	}
	o.set, o.flags = bmc.Boot{}, [5]byte{}
}

// getBootOption is Get System Boot Options (section 28.13).
func (s *Server) getBootOption(c call) ([]byte, byte) {
	const version = 1
	param := c.data[0] & 0x7f
	answer := []byte{version, param}
	switch param {
	case paramProgress:
		return append(answer, s.boot.progress), 0
	case paramClearing:
		return append(answer, s.boot.clearing), 0
	case paramAck:
		return append(answer, s.boot.ack[:]...), 0
	case paramFlags:
		flags := s.flags()
		return append(answer, flags[:]...), 0
	}
	return nil, codeNoParameter
}

// flags are the boot flags now. They are as they were set, but for the valid
// bit once the machine has used them; what was set by other means is put into
// their words.
func (s *Server) flags() [5]byte {
	s.expireBoot()
	now := s.c.Machine.Boot()
	if now == s.boot.set {
		return s.boot.flags
	}
	if now.Device == "" {
		flags := s.boot.flags
		flags[0] &^= flagValid
		return flags
	}
	var flags [5]byte
	flags[0] = flagValid
	if now.Persistent {
		flags[0] |= flagPersistent
	}
	if s.c.Machine.NextBootMode() == sim.UEFI {
		flags[0] |= flagEFI
	}
	for value, device := range selectors {
		if device == now.Device && value != selectRemoteDisk {
			flags[1] = value
		}
	}
	return flags
}
