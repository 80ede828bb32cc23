package ipmi

import (
	"context"
	"errors"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/store"
)

// getChassisCapabilities is Get Chassis Capabilities (section 28.1): all its
// parts are this controller.
func (s *Server) getChassisCapabilities(call) ([]byte, byte) {
	return []byte{0, addressBMC, addressBMC, addressBMC, addressBMC}, 0
}

// getChassisStatus is Get Chassis Status (section 28.2). A machine whose power
// changes is not yet on.
func (s *Server) getChassisStatus(call) ([]byte, byte) {
	const on, restorePrevious = 0x01, 0x20
	power := byte(restorePrevious)
	if s.c.PowerState() == store.PowerOn {
		power |= on
	}
	return []byte{power, 0, 0, 0}, 0
}

func (s *Server) getRestartCause(call) ([]byte, byte) { return []byte{0x01, s.channel()}, 0 }

func (s *Server) identify(call) ([]byte, byte) { return nil, 0 }

// Actions of Chassis Control (section 28.3).
const (
	powerDown  = 0
	powerUp    = 1
	powerCycle = 2
	hardReset  = 3
	softOff    = 5
)

var actions = map[byte]struct {
	steps  []bmc.PowerAction
	starts bool
	text   string
}{
	powerDown:  {[]bmc.PowerAction{bmc.ForceOff}, false, "power off"},
	powerUp:    {[]bmc.PowerAction{bmc.On}, true, "power on"},
	powerCycle: {[]bmc.PowerAction{bmc.ForceOff, bmc.On}, true, "power cycle"},
	hardReset:  {[]bmc.PowerAction{bmc.Reset}, true, "reset"},
	softOff:    {[]bmc.PowerAction{bmc.SoftOff}, false, "shutdown"},
}

// chassisControl is Chassis Control. A controller may refuse to turn off what
// is off (I-04) and whatever else is so already (B-09), and to start the
// machine after it was told to keep the boot flags (I-03); and it may call a
// start that it has made an error (B-20).
func (s *Server) chassisControl(c call) ([]byte, byte) {
	what := c.data[0] & 0x0f
	action, known := actions[what]
	on := s.c.Machine.PowerState() != store.PowerOff
	switch {
	case !known:
		return nil, codeField
	case what == powerCycle && !on,
		what == powerDown && !on && (s.c.Flaws.On("I-04") || s.c.Flaws.On("B-09")),
		what == powerUp && on && s.c.Flaws.On("B-09"),
		action.starts && s.boot.keep && s.c.Flaws.On("I-03"):
		return nil, codeState
	}
	s.expireBoot()
	// What has begun is finished even when the client goes away.
	ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
	defer cancel()
	for _, a := range action.steps {
		if err := s.c.Power(ctx, a); errors.Is(err, sim.ErrOff) {
			return nil, codeState
		} else if err != nil {
			s.c.Log("Warning", "%s asked for over IPMI failed: %v", action.text, err)
			return nil, codeUnspecified
		}
	}
	s.boot.acted = true
	s.c.Log("OK", "%s asked for over IPMI", action.text)
	if action.starts && s.c.Flaws.On("B-20") {
		return nil, codeUnspecified
	}
	return nil, 0
}
