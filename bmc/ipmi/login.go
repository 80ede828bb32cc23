package ipmi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"bessemer/bmc"
)

// open makes an RMCP+ session; while the controller has no room for one it
// waits, longer each time.
func (d *driver) open(ctx context.Context) error {
	l, err := dial(ctx, d.s.address(), d.s.timing)
	if err != nil {
		return err
	}
	pause := d.s.timing.backOff
	for n := 1; ; n++ {
		if err = d.login(ctx, l); err == nil {
			return nil
		}
		if !isFull(err) || n == 4 || !sleep(ctx, pause) {
			_ = l.close()
			return err
		}
		pause *= 2
	}
}

// login makes a session with the privilege asked for. Where that is only the
// default and the user has not so much, OPERATOR does (I-09).
func (d *driver) login(ctx context.Context, l *link) error {
	plus, err := probe(ctx, l, d.s.privilege)
	if err != nil {
		return explainSilence(ctx, l, err)
	}
	levels := d.levels()
	for i, level := range levels {
		denied, err := d.openBest(ctx, l, plus, level)
		if err == nil {
			d.level = level
			return nil
		}
		if !denied || i+1 == len(levels) {
			return err
		}
	}
	return nil
}

// levels returns the privileges to ask for, in order.
func (d *driver) levels() []byte {
	switch {
	case d.level != 0:
		return []byte{d.level}
	case d.s.lower:
		return []byte{d.s.privilege, levelOperator}
	}
	return []byte{d.s.privilege}
}

// openBest makes a session with the best cipher suite that the controller
// has. A refused password is final: trying it with another suite would only
// hasten the account's lock. That it says to have no RMCP+ is not
// believed before it is silent to it (I-09). Denied says that the user has not
// the privilege.
func (d *driver) openBest(ctx context.Context, l *link, plus bool, level byte) (denied bool, err error) {
	var why []string
	for _, with := range d.suites() {
		err := d.enter(ctx, l, with, level)
		if err == nil {
			return false, nil
		}
		denied = denied || isDenied(err)
		silent := errors.Is(err, bmc.ErrUnreachable) && ctx.Err() == nil
		if silent && !plus {
			return false, errors.New("the controller speaks IPMI 1.5 only; set ipmi_protocol_version to 1.5, which is not encrypted, or use Redfish")
		}
		if !isSuite(err) && !silent {
			return denied, fmt.Errorf("open session with cipher suite %d: %w", with.id, bmc.Scrub(err, d.s.password))
		}
		why = append(why, fmt.Sprintf("%d: %v", with.id, bmc.Scrub(err, d.s.password)))
	}
	return denied, fmt.Errorf("open session: the controller takes none of the cipher suites that are safe to use (%s); enable 17 or 3 there, or use Redfish", strings.Join(why, "; "))
}

// enter opens a session, which begins with the privilege USER at most
// (section 22.18), and raises its privilege.
func (d *driver) enter(ctx context.Context, l *link, with suite, level byte) error {
	s := d.s
	s.privilege = level
	c, err := openSession(ctx, l, s, with)
	if err != nil {
		return err
	}
	d.ch, d.used = c, time.Time{}
	if _, err := d.patient(ctx, cmdSetPrivilege, level); err != nil {
		d.ch = nil
		_ = c.end(ctx)
		return err
	}
	d.suite = with.id
	return nil
}

// suites returns the cipher suites to try, first the one that worked before.
func (d *driver) suites() []suite {
	ss := slices.Clone(d.s.suites)
	slices.SortStableFunc(ss, func(a, b suite) int {
		switch d.suite {
		case a.id:
			return -1
		case b.id:
			return 1
		}
		return 0
	})
	return ss
}

// probe asks what the controller speaks (section 22.13), which needs no
// login: plus says that it speaks RMCP+.
func probe(ctx context.Context, l *link, privilege byte) (plus bool, err error) {
	const thisChannel, extended = 0x0e, 0x80
	m := message{netFn: cmdCapabilities.netFn, cmd: cmdCapabilities.id, seq: 1, data: []byte{thisChannel | extended, privilege}}
	var answer message
	err = l.ask(ctx, func() ([]byte, error) { return legacyPacket(m), nil }, func(b []byte) (bool, error) {
		answer, err = parseLegacy(b)
		return err == nil && answer.netFn == m.netFn && answer.cmd == m.cmd && answer.seq == m.seq, nil
	})
	if err != nil {
		return false, err
	}
	// Old ones do not understand the question; whether they speak RMCP+
	// shows when it is tried.
	told := answer.code == 0 && len(answer.data) >= 4 && answer.data[1]&extended != 0
	return !told || answer.data[3]&2 != 0, nil
}

// explainSilence tells a controller that is not there from one that does not
// speak IPMI over LAN, as far as it can be told (I-12) in the time that is left.
func explainSilence(ctx context.Context, l *link, err error) error {
	if !errors.Is(err, bmc.ErrUnreachable) {
		return err // or we ceased to wait
	}
	const hint = "some have it switched off until it is switched on in their settings (Fujitsu iRMC S6); else use the driver redfish"
	if ctx.Err() == nil && l.ping(ctx) {
		return fmt.Errorf("%w; but a ping (RMCP) is answered: IPMI over LAN is switched off there: %s", err, hint)
	}
	return fmt.Errorf("%w; if the controller is up, IPMI over LAN may be switched off there: %s", err, hint)
}

// ping reports whether the controller answers a presence ping (section
// 13.2.3), which is not part of IPMI.
func (l *link) ping(ctx context.Context) bool {
	ping := []byte{6, 0, 0xff, 6, 0, 0, 0x11, 0xbe, 0x80, 0x2a, 0, 0}
	short := *l
	short.t.tries = 1
	return short.ask(ctx, func() ([]byte, error) { return ping, nil }, func(b []byte) (bool, error) {
		return len(b) >= 12 && b[3] == 6 && bytes.Equal(b[4:8], ping[4:8]) && b[8] == 0x40, nil
	}) == nil
}
