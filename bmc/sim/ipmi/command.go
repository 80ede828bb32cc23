package ipmi

import (
	"context"
	"time"

	"bessemer/bmc/sim/flaw"
)

// Network functions.
const (
	netChassis   = 0x00
	netSensor    = 0x04
	netApp       = 0x06
	netStorage   = 0x0a
	netTransport = 0x0c
	netGroup     = 0x2c // DCMI's
)

// Completion codes (table 5-2).
const (
	codeNoParameter = 0x80 // of boot options and LAN parameters
	codeBusy        = 0xc0
	codeUnknown     = 0xc1
	codeTimeout     = 0xc3
	codeReservation = 0xc5
	codeLength      = 0xc7
	codeTooMuch     = 0xca
	codeAbsent      = 0xcb
	codeField       = 0xcc
	codeRange       = 0xc9
	codePrivilege   = 0xd4
	codeState       = 0xd5
	codeUnspecified = 0xff
)

// A call is a command that is being done.
type call struct {
	ctx  context.Context
	x    *session // nil outside of sessions
	data []byte
}

// A command is done by a function, for those with a privilege.
type command struct {
	level byte // levelNone: without a session too
	least int  // bytes of data
	do    func(*Server, call) ([]byte, byte)
}

var commands = map[[2]byte]command{
	{netChassis, 0x00}: {levelUser, 0, (*Server).getChassisCapabilities},
	{netChassis, 0x01}: {levelUser, 0, (*Server).getChassisStatus},
	{netChassis, 0x02}: {levelOperator, 1, (*Server).chassisControl},
	{netChassis, 0x04}: {levelOperator, 0, (*Server).identify},
	{netChassis, 0x05}: {levelOperator, 0, (*Server).done},
	{netChassis, 0x07}: {levelUser, 0, (*Server).getRestartCause},
	{netChassis, 0x08}: {levelOperator, 1, (*Server).setBootOption},
	{netChassis, 0x09}: {levelOperator, 3, (*Server).getBootOption},

	{netSensor, 0x27}: {levelUser, 1, (*Server).getThresholds},
	{netSensor, 0x2d}: {levelUser, 1, (*Server).getReading},

	{netApp, 0x01}: {levelUser, 0, (*Server).getDeviceID},
	{netApp, 0x02}: {levelAdmin, 0, (*Server).reset},
	{netApp, 0x03}: {levelAdmin, 0, (*Server).reset},
	{netApp, 0x04}: {levelUser, 0, (*Server).getSelfTest},
	{netApp, 0x08}: {levelUser, 0, (*Server).getGUID},
	{netApp, 0x37}: {levelNone, 0, (*Server).getGUID},
	{netApp, 0x38}: {levelNone, 2, (*Server).getCapabilities},
	{netApp, 0x39}: {levelNone, 0, (*Server).getChallenge},
	{netApp, 0x3b}: {levelUser, 1, (*Server).setPrivilege},
	{netApp, 0x3c}: {levelUser, 4, (*Server).closeSession},
	{netApp, 0x3d}: {levelUser, 1, (*Server).getSessionInfo},
	{netApp, 0x41}: {levelUser, 2, (*Server).getChannelAccess},
	{netApp, 0x42}: {levelUser, 1, (*Server).getChannelInfo},
	{netApp, 0x44}: {levelOperator, 2, (*Server).getUserAccess},
	{netApp, 0x46}: {levelOperator, 1, (*Server).getUserName},
	{netApp, 0x54}: {levelNone, 3, (*Server).getSuites},

	{netStorage, 0x10}: {levelUser, 1, (*Server).getFRUInfo},
	{netStorage, 0x11}: {levelUser, 4, (*Server).readFRU},
	{netStorage, 0x20}: {levelUser, 0, (*Server).getSDRInfo},
	{netStorage, 0x21}: {levelUser, 0, (*Server).getSDRAllocation},
	{netStorage, 0x22}: {levelUser, 0, (*Server).reserveSDR},
	{netStorage, 0x23}: {levelUser, 6, (*Server).getSDR},
	{netStorage, 0x40}: {levelUser, 0, (*Server).getSELInfo},
	{netStorage, 0x41}: {levelUser, 0, (*Server).getSELAllocation},
	{netStorage, 0x42}: {levelUser, 0, (*Server).reserveSEL},
	{netStorage, 0x43}: {levelUser, 6, (*Server).getSEL},
	{netStorage, 0x47}: {levelOperator, 6, (*Server).clearSEL},
	{netStorage, 0x48}: {levelUser, 0, (*Server).getSELTime},
	{netStorage, 0x49}: {levelOperator, 4, (*Server).setSELTime},
	{netStorage, 0x5c}: {levelUser, 0, (*Server).getUTCOffset},

	{netTransport, 0x02}: {levelOperator, 4, (*Server).getLAN},

	{netGroup, 0x02}: {levelUser, 1, (*Server).getPower},
}

// outside answers a command that needs no session, and drops all others.
func (s *Server) outside(ctx context.Context, message []byte) []byte {
	r, ok := parseRequest(message)
	if !ok {
		return nil
	}
	if cmd, known := commands[[2]byte{r.netFn, r.cmd}]; !known || cmd.level != levelNone {
		return nil
	}
	if len(r.data) > 0 && r.cmd != 0x37 && r.cmd != 0x39 && !s.isLAN(r.data[0]) && s.c.Flaws.On("I-11") {
		return nil // it looks no further than at the channel
	}
	code, data := s.perform(call{ctx: ctx, data: r.data}, r)
	return r.answer(code, data)
}

// run answers a command of a session, nil for none.
func (s *Server) run(ctx context.Context, x *session, message []byte) []byte {
	r, ok := parseRequest(message)
	if !ok {
		return nil
	}
	now := s.o.Now()
	x.used = now
	if _, hit := s.c.Flaws.Hit(flaw.BMCPassword); hit { // who had the old one is out
		delete(s.sessions, x.id)
		return nil
	}
	what := string(message)
	if x.last.what == what && x.last.answer != nil && now.Sub(x.last.at) < replayTime {
		return x.last.answer
	}
	code := s.obstacle(r, now)
	var data []byte
	if code == 0 {
		code, data = s.perform(call{ctx: ctx, x: x, data: r.data}, r)
	}
	answer := r.answer(code, data)
	x.last = done{at: now, what: what, answer: answer}
	if code == codeBusy || code == codeTimeout {
		x.last = done{} // it has not been done
	}
	return answer
}

// spacing is how far apart commands must be for I-06.
func (s *Server) spacing() time.Duration {
	pace := s.c.Pace
	if pace == 0 {
		pace = 1
	}
	return time.Duration(pace * float64(time.Second))
}

// obstacle is the completion code of a command that is not even looked at, by
// a fault or because it comes too soon (I-06). A session may always be ended.
func (s *Server) obstacle(r request, now time.Time) byte {
	if r.netFn == netApp && r.cmd == 0x3c {
		return 0
	}
	if _, hit := s.c.Flaws.Hit(flaw.BMC500); hit {
		return codeUnspecified
	}
	if _, hit := s.c.Flaws.Hit(flaw.BMC503); hit {
		return codeBusy
	}
	if s.c.Flaws.On("I-06") && now.Sub(s.last) < s.spacing() {
		return codeTimeout
	}
	s.last = now
	return 0
}

func (s *Server) perform(c call, r request) (code byte, data []byte) {
	cmd, ok := commands[[2]byte{r.netFn, r.cmd}]
	switch {
	case !ok:
		return codeUnknown, nil
	case c.x != nil && c.x.level < cmd.level:
		return codePrivilege, nil
	case len(r.data) < cmd.least:
		return codeLength, nil
	}
	data, code = cmd.do(s, c)
	if code != 0 {
		data = nil
	}
	return code, data
}

// done is for commands that change nothing here.
func (s *Server) done(call) ([]byte, byte) { return nil, 0 }
