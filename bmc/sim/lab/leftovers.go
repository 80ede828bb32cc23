//go:build linux

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	for _, pattern := range []string{"/run/netns/", os.TempDir() + "/"} {
		found, err := filepath.Glob(pattern + prefix + "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if !orphan(filepath.Base(path)) {
				continue
			}
			t.Logf("removing %s of an earlier test", path)
			if pattern == "/run/netns/" {
				err = remove(filepath.Base(path))
			} else {
				err = os.RemoveAll(path)
			}
			if err != nil {
				t.Logf("remove %s: %v", path, err)
			}
		}
	}
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
