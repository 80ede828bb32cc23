package ipmi

import (
	"context"
	"errors"
	"fmt"
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

	mu    sync.Mutex
	ch    channel       // nil when there is no session
	used  time.Time     // when it was used last
	suite int           // the one that worked, 0 when none did yet
	level byte          // the privilege that was granted, 0 when none was yet
	maker int           // the controller's manufacturer, 0 when not known yet
	pace  time.Duration // what it needs between two commands, as far as is known
	took  time.Time     // when it took the last one

	unread bool      // it said that no boot device is set right after one was
	boot   bmc.Boot  // what was set last, and is not yet used up
	bootAt time.Time // when
	kept   bool      // it took the order to keep that beyond 60 s
	once   bool      // it takes a device for one boot only
	noKeep bool      // it does not start the machine under that order
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
// the controller has lost is opened anew.
func (d *driver) run(ctx context.Context, cmd command, data ...byte) ([]byte, error) {
	for n := 1; ; n++ {
		fresh, err := d.ensure(ctx)
		if err != nil {
			return nil, err
		}
		answer, err := d.patient(ctx, cmd, data...)
		if err == nil {
			return answer, nil
		}
		lost := ctx.Err() != nil || errors.Is(err, bmc.ErrUnreachable) || errors.Is(err, errMalformed)
		if lost {
			d.drop(ctx)
		}
		if !lost || ctx.Err() != nil || fresh || n == 3 {
			return nil, err
		}
	}
}

// patient sends a command, again while the controller is busy.
func (d *driver) patient(ctx context.Context, cmd command, data ...byte) ([]byte, error) {
	pause, waited := d.s.timing.backOff/8, time.Duration(0)
	for n := 1; ; n++ {
		answer, err := d.exchange(ctx, cmd, data)
		busy := code(err) == codeBusy || code(err) == codeTimeout
		if !busy {
			d.learn(waited)
			return answer, err
		}
		if n == 5 || !sleep(ctx, pause) {
			return nil, err
		}
		waited += pause
		pause *= 2
	}
}

// learn adapts the pace to the controller: one that fails commands which come
// too soon (I-06) gets time between them, as much as it took the last time,
// and slowly less.
func (d *driver) learn(waited time.Duration) {
	now := time.Now()
	switch {
	case waited == 0 && d.pace < 50*time.Millisecond:
		d.pace = 0
	case waited == 0:
		d.pace -= d.pace / 16
	default:
		d.pace = min(d.pace+waited, now.Sub(d.took), maxPace)
	}
	d.took = now
}

// maxPace is the longest time that is left between commands unasked.
const maxPace = 5 * time.Second

// exchange sends a command, not too soon after the last one (I-06), and tells of
// the exchange.
func (d *driver) exchange(ctx context.Context, cmd command, data []byte) ([]byte, error) {
	if !sleep(ctx, max(d.s.interval, d.pace)-time.Since(d.used)) {
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
	return true, nil
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
