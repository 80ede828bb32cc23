package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// demoPrefix is what the names of demos' temporary directories begin with.
const demoPrefix = "bessemer-demo-"

// demoLock in a demo's directory is locked as long as the demo runs.
const demoLock = "demo.lock"

// A demoDir is the temporary directory of a demo that runs.
type demoDir struct {
	path string
	lock *os.File
}

// newDemoDir makes a temporary directory below base, and removes those of
// demos that were killed.
func newDemoDir(base string) (demoDir, error) {
	removeStale(base, time.Now())
	path, err := os.MkdirTemp(base, demoPrefix)
	if err != nil {
		return demoDir{}, fmt.Errorf("make the demo's directory: %w", err)
	}
	lock, err := lockFile(filepath.Join(path, demoLock))
	if err != nil {
		_ = os.RemoveAll(path)
		return demoDir{}, fmt.Errorf("lock the demo's directory: %w", err)
	}
	return demoDir{path, lock}, nil
}

func (d demoDir) remove() error {
	err := os.RemoveAll(d.path)
	_ = d.lock.Close() // last, for it says that the directory is in use
	return err
}

// lockFile locks a file, which it makes if need be, until the process ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// removeStale removes the directories below base of demos of this user that do
// not run any more. One without a lock may be just being made.
func removeStale(base string, now time.Time) {
	dirs, _ := filepath.Glob(filepath.Join(base, demoPrefix+"*")) // the pattern is right
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || !ours(info) {
			continue
		}
		lock := filepath.Join(dir, demoLock)
		if _, err := os.Lstat(lock); err != nil && now.Sub(info.ModTime()) < time.Minute {
			continue
		}
		f, err := lockFile(lock)
		if err != nil {
			continue // it runs
		}
		_ = os.RemoveAll(dir) // what is left now will be tried again
		_ = f.Close()
	}
}

func ours(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
