package hw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"bessemer/agent/wire"
)

// A Fake is a machine made of files: every disk is a sparse file. The
// simulated rack and the tests run the real agent on it. Set the fields before
// use; the methods may be called by several goroutines.
type Fake struct {
	// Hardware is what Inventory and Disks report. A disk's sector size is
	// its LogicalSectorSize, 512 when that is 0.
	Hardware wire.Inventory
	// Files holds the path of each disk's file by the disk's name. A file
	// is created, or made as large as the disk, when it is opened.
	Files map[string]string
	// Alter, if set, changes what is reported each time the hardware is
	// looked at; the slices are copies.
	Alter func(*wire.Inventory)
	// Path, if set, says which file is a disk's in place of Files; "" is a
	// disk without a medium.
	Path func(wire.Disk) string
	// Firmware is nil on a machine that booted by BIOS.
	Firmware *FakeEFI
	// LogText is what Logs returns.
	LogText map[string]string
	// WriteOut writes to the medium while the disk is written to, and keeps
	// nothing of it in memory, as Linux does with a real disk.
	WriteOut bool
	// Volatile disks keep what is written in the host's memory, which outlives
	// the machine: Sync has nothing to do.
	Volatile bool
	// Fault, if set, is asked before every access to a disk; an error that
	// it returns is the access's. op is open, read, write, zero, discard,
	// sync or reread. A write whose error is [Torn] is done in part.
	Fault func(op, disk string, off, n int64) error
	// Done, if set, hears of everything that was written, zeroed or discarded.
	Done func(op, disk string, off, n int64)
	// Busy, if set, is asked each time a disk is opened for writing, and when
	// its partitions are read anew; while it is true, somebody else holds the
	// disk (K-14). It is asked again after BusyPause; 0: 500 ms, as on Linux.
	Busy      func(disk string) bool
	BusyPause time.Duration
	// OnPowerOff and OnReboot are called by PowerOff and Reboot; nil ones
	// make those fail, as on a machine that cannot.
	OnPowerOff, OnReboot func()

	mu      sync.Mutex
	holders map[string]bool // disks that are open for writing
	actions []string
}

var _ Machine = (*Fake)(nil)

// Inventory implements Machine.
func (f *Fake) Inventory(ctx context.Context) (wire.Inventory, error) {
	if err := ctx.Err(); err != nil {
		return wire.Inventory{}, err
	}
	return f.look(), nil
}

// look is the hardware at this moment.
func (f *Fake) look() wire.Inventory {
	inv := f.Hardware
	inv.Disks = slices.Clone(f.Hardware.Disks)
	inv.Interfaces = slices.Clone(f.Hardware.Interfaces)
	if f.Alter != nil {
		f.Alter(&inv)
	}
	return inv
}

// Disks implements Machine.
func (f *Fake) Disks(ctx context.Context) ([]wire.Disk, error) {
	return f.look().Disks, ctx.Err()
}

// OpenDisk implements Machine.
func (f *Fake) OpenDisk(name string, writable bool) (Disk, error) {
	disks := f.look().Disks
	i := slices.IndexFunc(disks, func(d wire.Disk) bool { return d.Name == name })
	if i < 0 || f.path(disks[i]) == "" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENXIO}
	}
	d := disks[i]
	if err := f.fault("open", name, 0, 0); err != nil {
		return nil, err
	}
	if writable && d.ReadOnly {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EROFS}
	}
	if writable {
		if err := f.wait(name); err != nil {
			return nil, fmt.Errorf("open disk: %w", err)
		}
	}
	if writable && !f.hold(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EBUSY}
	}
	file, err := openSparse(f.path(d), d.Size)
	if err != nil {
		f.release(name, writable)
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	disk := &fakeDisk{machine: f, name: name, file: file, size: d.Size, sector: max(d.LogicalSectorSize, 512), writable: writable}
	if f.WriteOut {
		disk.written = writeOutWindow(file)
	}
	return disk, nil
}

func (f *Fake) path(d wire.Disk) string {
	if f.Path != nil {
		return f.Path(d)
	}
	return f.Files[d.Name]
}

// wait waits until nobody else holds a disk.
func (f *Fake) wait(name string) error {
	if f.Busy == nil {
		return nil
	}
	_, err := patiently(cmp.Or(f.BusyPause, openPause), func() (struct{}, error) {
		if f.Busy(name) {
			return struct{}{}, &fs.PathError{Op: "open", Path: name, Err: syscall.EBUSY}
		}
		return struct{}{}, nil
	})
	return err
}

func openSparse(path string, size int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && st.Size() != size {
		err = f.Truncate(size)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Fake) hold(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holders[name] {
		return false
	}
	if f.holders == nil {
		f.holders = map[string]bool{}
	}
	f.holders[name] = true
	return true
}

func (f *Fake) release(name string, writable bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if writable {
		delete(f.holders, name)
	}
}

// EFI implements Machine.
func (f *Fake) EFI() EFI {
	if f.Firmware == nil {
		return nil
	}
	return f.Firmware
}

// Logs implements Machine.
func (f *Fake) Logs() map[string]io.Reader {
	m := map[string]io.Reader{}
	for _, k := range slices.Sorted(maps.Keys(f.LogText)) {
		m[k] = strings.NewReader(f.LogText[k])
	}
	return m
}

// Sync implements Machine.
func (f *Fake) Sync() { f.record("sync") }

// PowerOff implements Machine.
func (f *Fake) PowerOff() error { return f.end("power off", f.OnPowerOff) }

// Reboot implements Machine.
func (f *Fake) Reboot() error { return f.end("reboot", f.OnReboot) }

func (f *Fake) end(what string, do func()) error {
	if do == nil {
		return fmt.Errorf("%s: %w", what, errors.ErrUnsupported)
	}
	f.record(what)
	do()
	return nil
}

func (f *Fake) record(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.actions = append(f.actions, what)
}

// Actions returns what was done to the machine as a whole so far: "sync",
// "power off", "reboot" and "reread /dev/sda".
func (f *Fake) Actions() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.actions)
}

// Torn is the error of a write that ends in the middle: so many bytes of it
// reach the medium.
type Torn struct {
	Kept int64
	Err  error
}

// Error implements error.
func (t *Torn) Error() string { return t.Err.Error() }

// Unwrap implements error chains.
func (t *Torn) Unwrap() error { return t.Err }

func (f *Fake) done(op, disk string, off, n int64) {
	if f.Done != nil && n > 0 {
		f.Done(op, disk, off, n)
	}
}

func (f *Fake) fault(op, disk string, off, n int64) error {
	if f.Fault == nil {
		return nil
	}
	return f.Fault(op, disk, off, n)
}
