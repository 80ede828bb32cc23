package hw

import (
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
	// Firmware is nil on a machine that booted by BIOS.
	Firmware *FakeEFI
	// LogText is what Logs returns.
	LogText map[string]string
	// WriteOut writes to the medium while the disk is written to, and keeps
	// nothing of it in memory, as Linux does with a real disk.
	WriteOut bool
	// Fault, if set, is asked before every access to a disk; an error that
	// it returns is the access's. op is open, read, write, zero, discard,
	// sync or reread.
	Fault func(op, disk string, off, n int64) error
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
	inv := f.Hardware
	inv.Disks = slices.Clone(f.Hardware.Disks)
	inv.Interfaces = slices.Clone(f.Hardware.Interfaces)
	return inv, nil
}

// Disks implements Machine.
func (f *Fake) Disks(ctx context.Context) ([]wire.Disk, error) {
	return slices.Clone(f.Hardware.Disks), ctx.Err()
}

// OpenDisk implements Machine.
func (f *Fake) OpenDisk(name string, writable bool) (Disk, error) {
	i := slices.IndexFunc(f.Hardware.Disks, func(d wire.Disk) bool { return d.Name == name })
	if i < 0 || f.Files[name] == "" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENXIO}
	}
	d := f.Hardware.Disks[i]
	if err := f.fault("open", name, 0, 0); err != nil {
		return nil, err
	}
	if writable && d.ReadOnly {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EROFS}
	}
	if writable && !f.hold(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EBUSY}
	}
	file, err := openSparse(f.Files[name], d.Size)
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

func (f *Fake) fault(op, disk string, off, n int64) error {
	if f.Fault == nil {
		return nil
	}
	return f.Fault(op, disk, off, n)
}
