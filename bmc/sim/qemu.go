package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/rs/zerolog"

	"bessemer/bmc"
	"bessemer/store"
)

// QEMUConfig says what a QEMU machine is and where it lives.
type QEMUConfig struct {
	Spec
	// Dir is the machine's own directory: disks without a path, the UEFI
	// variables, the console. It must exist.
	Dir string
	// Command is put before QEMU's own command line: ip netns exec NAME. It
	// must replace itself by QEMU rather than be its parent.
	Command []string
	// CDROM is an ISO image in the machine's optical drive, or "".
	CDROM string
	// Accel is QEMU's accelerator; "" for TCG with a thread per CPU.
	Accel string
	// Code and Vars are the UEFI firmware and its pristine variables; "" for
	// those of Debian's package ovmf.
	Code, Vars string
	// Kernel, Initrd and Append boot a kernel directly, past the boot order.
	Kernel, Initrd, Append string
	Log                    zerolog.Logger
}

// QEMU is a machine that is a QEMU process while its power is on. Every start
// of its firmware is a new process, also when the guest reboots: so the boot
// order is decided anew each time, as by a controller. Power off kills the
// process. Only Close ends it for good; it also ends with this process.
type QEMU struct {
	cfg QEMUConfig
	ops sync.Mutex // one power action at a time

	mu     sync.Mutex
	fw     firmware
	period *period // while the power is on, or changes
	state  store.PowerState
	fault  error // why the last period ended, when it was no power action
	closed bool
}

var _ Machine = (*QEMU)(nil)

// A period is one time of the power being on, with one process after another.
type period struct {
	cancel  context.CancelFunc
	done    chan struct{}
	started chan error    // the first process runs, or why it does not
	reset   chan struct{} // holds one request

	// Under the machine's mu:
	qmp     *qmp // of the process that runs now, nil between two
	restart bool // start again when the guest has powered off
}

// NewQEMU prepares a machine that is off: it creates missing disks and checks
// its firmware files.
func NewQEMU(c QEMUConfig) (*QEMU, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("machine %s: %w", c.Name, err)
	}
	for _, d := range c.Disks {
		if err := createDisk(d.Path, d.Size); err != nil {
			return nil, fmt.Errorf("machine %s: %w", c.Name, err)
		}
	}
	return &QEMU{cfg: c, fw: newFirmware(c.Modes), state: store.PowerOff}, nil
}

// createDisk makes a sparse file, unless there is one.
func createDisk(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create disk: %w", err)
	}
	if err := f.Truncate(size); err != nil {
		return errors.Join(fmt.Errorf("create disk of %d bytes: %w", size, err), f.Close())
	}
	return f.Close()
}

// Use has the machine's starts go as the quirks of its controller have it.
func (q *QEMU) Use(c *Controller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fw.ctl = c
}

// Spec implements Machine.
func (q *QEMU) Spec() Spec { return q.cfg.Spec }

// Console implements Machine.
func (q *QEMU) Console() string { return filepath.Join(q.cfg.Dir, "console.log") }

// PowerState implements Machine.
func (q *QEMU) PowerState() store.PowerState {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state
}

// Fault returns why the machine went off by itself, nil when it did not.
func (q *QEMU) Fault() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fault
}

// Power implements Machine.
func (q *QEMU) Power(ctx context.Context, a bmc.PowerAction) error {
	q.ops.Lock()
	defer q.ops.Unlock()
	q.mu.Lock()
	p := q.period
	q.mu.Unlock()
	switch {
	case a == bmc.On && p == nil:
		return q.on(ctx)
	case a == bmc.On:
		return nil
	case a == bmc.ForceOff && p == nil:
		return nil
	case a == bmc.ForceOff:
		return q.off(ctx, p)
	case p == nil:
		return fmt.Errorf("%s: %w", a, ErrOff)
	case a == bmc.Reset:
		select {
		case p.reset <- struct{}{}:
		default: // one is on its way
		}
		return nil
	case a == bmc.SoftOff || a == Restart:
		return q.shutdown(ctx, p, a == Restart)
	}
	return fmt.Errorf("power action %q: %w", a, bmc.ErrUnsupported)
}

func (q *QEMU) on(ctx context.Context) error {
	// The period outlives the request that begins it.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &period{cancel: cancel, done: make(chan struct{}), started: make(chan error, 1), reset: make(chan struct{}, 1)}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		cancel()
		return fmt.Errorf("power on machine %s: it is closed", q.cfg.Name)
	}
	q.period, q.state, q.fault = p, "", nil
	q.mu.Unlock()
	go q.powered(life, p)
	select {
	case err := <-p.started:
		return err
	case <-ctx.Done():
		return fmt.Errorf("power on machine %s: %w", q.cfg.Name, ctx.Err())
	}
}

func (q *QEMU) off(ctx context.Context, p *period) error {
	p.cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("power off machine %s: %w", q.cfg.Name, ctx.Err())
	}
}

// shutdown presses the power button, which the guest's ACPI may obey.
func (q *QEMU) shutdown(ctx context.Context, p *period, restart bool) error {
	q.mu.Lock()
	monitor := p.qmp
	p.restart = restart
	q.mu.Unlock()
	if monitor == nil {
		return nil // its firmware is just starting, and would ignore the button
	}
	return monitor.call(ctx, "system_powerdown")
}

// powered owns the processes of one period.
func (q *QEMU) powered(ctx context.Context, p *period) {
	defer close(p.done)
	defer p.cancel()
	// The kernel ties a process's parent-death signal to the thread that
	// started it, so this one must live as long as the processes.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for again := true; again; {
		var err error
		again, err = q.run(ctx, p)
		if err != nil && ctx.Err() == nil { // else it was told to go off
			q.cfg.Log.Error().Err(err).Str("machine", q.cfg.Name).Msg("machine went off by itself")
			q.mu.Lock()
			q.fault = err
			q.mu.Unlock()
		}
		select {
		case p.started <- err:
		default: // only the first one is waited for
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.period, q.state = nil, store.PowerOff
}

// run starts one process and stays until it has ended. It reports whether the
// machine starts again.
func (q *QEMU) run(ctx context.Context, p *period) (again bool, err error) {
	q.mu.Lock()
	boot := q.fw.start()
	q.mu.Unlock()
	proc, err := q.cfg.launch(ctx, boot)
	if err != nil {
		return false, err
	}
	defer func() {
		q.setMonitor(p, nil)
		if e := proc.end(); e != nil && err == nil {
			err = e
		}
	}()
	q.setMonitor(p, proc.monitor)
	select {
	case p.started <- nil:
	default:
	}
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-p.reset:
			return true, nil
		case e, ok := <-proc.monitor.events:
			switch {
			case !ok:
				return false, fmt.Errorf("qemu of machine %s ended: %w", q.cfg.Name, proc.wait())
			case e.name == "SHUTDOWN":
				return e.reason == "guest-reset" || q.restarts(p), nil
			}
		}
	}
}

func (q *QEMU) setMonitor(p *period, m *qmp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.qmp = m
	if m != nil {
		q.state = store.PowerOn
	}
}

// restarts reports, once, whether the guest was powered off to start again.
func (q *QEMU) restarts(p *period) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := p.restart
	p.restart = false
	return r
}

// Close powers the machine off for ever. Its files stay.
func (q *QEMU) Close() error {
	q.ops.Lock()
	defer q.ops.Unlock()
	q.mu.Lock()
	q.closed = true
	p := q.period
	q.mu.Unlock()
	if p == nil {
		return nil
	}
	return q.off(context.Background(), p)
}
