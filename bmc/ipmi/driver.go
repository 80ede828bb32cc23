package ipmi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// A channel is a session of either version of IPMI.
type channel interface {
	send(ctx context.Context, cmd command, data ...byte) ([]byte, error)
	end(ctx context.Context) error
	close() error
}

// driver is one machine behind its controller. Calls are made one at a time.
type driver struct {
	s     settings
	calls sync.WaitGroup // goroutines of IPMI 1.5

	mu     sync.Mutex
	ch     channel   // nil when there is no session
	used   time.Time // when it was used last
	suite  int       // the one that worked, 0 when none did yet
	maker  int       // the controller's manufacturer, 0 when not known yet
	unread bool      // it said that no boot device is set right after one was
	boot   bmc.Boot  // what was set last
}

var _ bmc.Driver = (*driver)(nil)

func newDriver(s settings) *driver { return &driver{s: s} }

// Address implements [bmc.Addressed].
func (d *driver) Address() string { return d.s.address() }

// Close implements [bmc.Driver].
func (d *driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(context.Background())
	d.calls.Wait()
	return nil
}

// drop ends the session, if there is one. That the controller does not answer
// any more is no fault: it forgets the session by itself.
func (d *driver) drop(ctx context.Context) {
	if d.ch == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = d.ch.end(ctx)
	_ = d.ch.close()
	d.ch = nil
}

// run sends a command in a session, which it opens if need be. A session that
// the controller has lost is opened anew, and a busy controller asked again.
func (d *driver) run(ctx context.Context, cmd command, data ...byte) ([]byte, error) {
	pause := d.s.timing.backOff / 8
	for n := 1; ; n++ {
		fresh, err := d.ensure(ctx)
		if err != nil {
			return nil, err
		}
		answer, err := d.once(ctx, cmd, data)
		if err == nil {
			return answer, nil
		}
		switch lost := ctx.Err() != nil || errors.Is(err, bmc.ErrUnreachable) || errors.Is(err, errMalformed); {
		case lost && ctx.Err() == nil && !fresh && n < 3:
			d.drop(ctx)
		case lost:
			d.drop(ctx)
			return nil, err
		case (code(err) == codeBusy || code(err) == codeTimeout) && n < 4 && sleep(ctx, pause):
			pause *= 2
		default:
			return nil, err
		}
	}
}

// once sends a command, not too soon after the last one (I-06), and tells of
// the exchange.
func (d *driver) once(ctx context.Context, cmd command, data []byte) ([]byte, error) {
	if !sleep(ctx, d.s.interval-time.Since(d.used)) {
		return nil, ctx.Err()
	}
	answer, err := d.ch.send(ctx, cmd, data...)
	d.used = time.Now()
	w := store.Wire{
		Proto: "ipmi", Method: cmd.name, Path: fmt.Sprintf("%02x/%02x", cmd.netFn, cmd.id), Peer: d.s.address(), Status: int(code(err)),
		Out: int64(len(data)), In: int64(len(answer)),
	}
	if s, ok := d.ch.(*session); ok {
		w.Out, w.In = s.out, s.in
	}
	bmc.Exchanged(ctx, w)
	return answer, err
}

// ensure sees to it that there is a session; fresh says that it is new.
func (d *driver) ensure(ctx context.Context) (fresh bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if d.ch != nil && time.Since(d.used) > d.s.timing.idle {
		d.drop(ctx)
	}
	if d.ch != nil {
		return false, nil
	}
	if d.s.legacy {
		l, err := openLegacy(ctx, d.s, &d.calls)
		if err != nil {
			return false, err
		}
		d.ch = l
	} else if err := d.open(ctx); err != nil {
		return false, err
	}
	d.used = time.Time{}
	return true, nil
}

// open makes an RMCP+ session; while the controller has no room for one it
// waits, longer each time.
func (d *driver) open(ctx context.Context) error {
	l, err := dial(ctx, d.s.address(), d.s.timing)
	if err != nil {
		return err
	}
	pause := d.s.timing.backOff
	for n := 1; ; n++ {
		if err = d.openBest(ctx, l); err == nil {
			return nil
		}
		if !isFull(err) || n == 4 || !sleep(ctx, pause) {
			_ = l.close()
			return err
		}
		pause *= 2
	}
}

// openBest makes a session with the best cipher suite that the controller
// has. A refused password is final: trying it with another suite would only
// hasten the account's lock.
func (d *driver) openBest(ctx context.Context, l *link) error {
	plus, err := probe(ctx, l, d.s.privilege)
	if err != nil {
		return err
	}
	if !plus {
		return errors.New("the controller speaks IPMI 1.5 only; set ipmi_protocol_version to 1.5, which is not encrypted, or use Redfish")
	}
	var why []string
	for _, with := range d.suites() {
		s, err := openSession(ctx, l, d.s, with)
		if err == nil {
			d.ch, d.suite = s, with.id
			return nil
		}
		silent := errors.Is(err, bmc.ErrUnreachable) && ctx.Err() == nil
		if !isSuite(err) && !silent {
			return fmt.Errorf("open session with cipher suite %d: %w", with.id, bmc.Scrub(err, d.s.password))
		}
		why = append(why, fmt.Sprintf("%d: %v", with.id, bmc.Scrub(err, d.s.password)))
	}
	return fmt.Errorf("open session: the controller takes none of the cipher suites that are safe to use (%s); enable 17 or 3 there, or use Redfish", strings.Join(why, "; "))
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

// sleep waits; it returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
