//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// prefix begins the name of every lab's namespace and directory; the process
// id of its test follows.
const prefix = "bessemer-lab-"

// removeLeftovers removes the labs of tests that no longer run.
func removeLeftovers(t testing.TB) {
	t.Helper()
	for _, err := range removeLabs(orphan) {
		t.Logf("remove what an earlier test has left: %v", err)
	}
}

// removeLabs removes the labs of some names: their namespaces with all that
// runs in them, then their directories.
func removeLabs(which func(name string) bool) (errs []error) {
	for _, dir := range []string{namespaces, os.TempDir()} {
		found, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
		errs = append(errs, some(err)...)
		for _, path := range found {
			if !which(filepath.Base(path)) {
				continue
			}
			if dir == namespaces {
				err = remove(filepath.Base(path))
			} else {
				err = os.RemoveAll(path)
			}
			errs = append(errs, some(err)...)
		}
	}
	return errs
}

const namespaces = "/run/netns"

func some(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}

// removeOwnLabs waits for a signal that ends the test's program, and removes
// the program's labs before it ends.
func removeOwnLabs() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() { // ends with the program
		got := <-signals
		own := prefix + strconv.Itoa(os.Getpid()) + "-"
		errs := removeLabs(func(name string) bool { return strings.HasPrefix(name, own) })
		fmt.Fprintln(os.Stderr, "ended by signal:", got, errors.Join(errs...))
		os.Exit(1)
	}()
}

// orphan reports whether name is a lab's and its test is no more.
func orphan(name string) bool {
	owner, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "-")
	pid, err := strconv.Atoi(owner)
	if err != nil || pid <= 0 {
		return false
	}
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// remove kills what still runs in a lab's namespace and deletes it.
func remove(name string) error {
	out, err := exec.Command("ip", "netns", "pids", name).Output()
	if err != nil {
		return fmt.Errorf("list processes of namespace %s: %w", name, err)
	}
	for _, f := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(f); err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // may have ended meanwhile
		}
	}
	return ip("netns", "delete", name)
}
