//go:build linux

package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
)

// A test that is killed takes its processes with it, and the next one removes
// its namespace and its files.
func TestKilledTestLeavesNothing(t *testing.T) {
	if os.Getenv("BESSEMER_LAB_CRASH") != "" {
		l := New(t)
		p := l.Start("sleep.log", nil, "sleep", "1000")
		fmt.Printf("LEFT %s %s %d\n", l.Name, l.Dir, p.Pid())
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	New(t) // skips when there can be no lab
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "BESSEMER_LAB_CRASH=1")
	out, err := child.CombinedOutput()
	if err == nil {
		t.Fatalf("the child was not killed: %s", out)
	}
	at := strings.Index(string(out), "LEFT ")
	var name, dir string
	var pid int
	if at < 0 {
		t.Fatalf("the child said %s", out)
	}
	if _, err := fmt.Sscanf(string(out[at:]), "LEFT %s %s %d", &name, &dir, &pid); err != nil {
		t.Fatalf("the child said %s", out)
	}
	for deadline := time.Now().Add(10 * time.Second); running(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the child's process outlives it")
		}
	}
	New(t)
	for _, p := range []string{"/run/netns/" + name, dir} {
		if _, err := os.Stat(p); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", p, err)
		}
	}
}

// running reports whether a process runs; one that has ended may stay in the
// table for a while.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(state, "Z")
}

// A guest that reboots starts its firmware anew, in another process: the boot
// order counts again, and the power stays on.
func TestGuestReboot(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a machine")
	}
	kernels, _ := filepath.Glob(filepath.Join(os.Getenv("BESSEMER_KERNEL_DIR"), "boot/vmlinuz-*"))
	if os.Getenv("BESSEMER_KERNEL_DIR") == "" || len(kernels) == 0 {
		t.Skip("no kernel in BESSEMER_KERNEL_DIR")
	}
	l := New(t)
	c := machineConfig(sim.BIOS)
	// Without a root file system it panics, and reboots at once.
	c.Kernel, c.Append = kernels[0], "console=ttyS0 panic=-1"
	m := l.Machine(c)
	if err := m.SetBoot(bmc.Boot{Device: bmc.PXE}); err != nil {
		t.Fatal(err)
	}
	if err := m.Power(t.Context(), bmc.On); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); len(m.Starts()) < 2; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no second start; the console ends with: %s", last(ConsoleText(t, m, 0), 2000))
		}
	}
	if s := m.Starts(); s[0].Device != bmc.PXE || s[1].Device != "" {
		t.Errorf("got starts %v, want the override used once", s)
	}
	if err := m.Power(t.Context(), bmc.ForceOff); err != nil {
		t.Fatal(err)
	}
	if err := m.Fault(); err != nil {
		t.Errorf("fault: %v", err)
	}
}
