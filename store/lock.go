package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile is the name of the file that the process which uses the store
// holds locked; its content is that process's id.
const lockFile = "bessemer.lock"

// lockPatience is how long a second process waits for the first to end, so
// that a restart need not be timed.
const lockPatience = 150 * time.Millisecond

// lockDir takes the lock of a data directory, or returns ErrLocked. Closing
// the file, or dying, gives it back.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock store: %w", err)
	}
	if err := lockWithin(f, lockPatience); err != nil {
		holder, _ := os.ReadFile(path)
		return nil, errors.Join(lockError(dir, string(holder), err), f.Close())
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0) // only to be shown
	}
	return f, nil
}

func lockWithin(f *os.File, d time.Duration) error {
	for end := time.Now().Add(d); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return err
		}
	}
}

func lockError(dir, holder string, err error) error {
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("lock store in %s: %w", dir, err)
	}
	if pid := strings.TrimSpace(holder); pid != "" {
		return fmt.Errorf("store in %s is %w (pid %s): stop that one first, or ask it through its API", dir, ErrLocked, pid)
	}
	return fmt.Errorf("store in %s is %w: stop that one first, or ask it through its API", dir, ErrLocked)
}
