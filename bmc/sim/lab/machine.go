//go:build linux

package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bessemer/bmc/sim"
)

// Machine puts a machine into the rack: its network cards are plugged into the
// provisioning network, its files are in a directory of its own. It is off.
// It skips the test when there is no QEMU.
func (l *Lab) Machine(c sim.QEMUConfig) *sim.QEMU {
	l.t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		l.t.Skip("no qemu-system-x86_64 (Debian package qemu-system-x86)")
	}
	c.Dir = filepath.Join(l.Dir, c.Name)
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		l.t.Fatal(err)
	}
	c.Command = l.Prefix()
	for i := range c.NICs {
		c.NICs[i].Tap = l.AddTap()
	}
	m, err := sim.NewQEMU(c)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			l.t.Errorf("close machine %s: %v", c.Name, err)
		}
	})
	return m
}

// WaitConsole waits until the machine's serial console has a line that
// contains text, and returns it from there on. Only what comes after the first skip
// bytes of the console counts. It fails the test, with the console's end,
// after the time given.
func WaitConsole(t testing.TB, m sim.Machine, skip int64, text string, within time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		said := ConsoleText(t, m, skip)
		for line := range strings.Lines(said) {
			if at := strings.Index(line, text); at >= 0 && strings.HasSuffix(line, "\n") {
				return strings.TrimSpace(line[at:])
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("machine %s: no %q on its console within %s; power is %q, the console ends with:\n%s",
				m.Spec().Name, text, within, m.PowerState(), last(said, 3000))
		}
	}
}

// ConsoleText returns what the machine's serial console has said after the
// first skip bytes.
func ConsoleText(t testing.TB, m sim.Machine, skip int64) string {
	t.Helper()
	b, err := os.ReadFile(m.Console())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.ToValidUTF8(string(b[min(int64(len(b)), skip):]), "?")
}

// ConsoleSize is how much the machine's serial console has said.
func ConsoleSize(m sim.Machine) int64 {
	fi, err := os.Stat(m.Console())
	if err != nil {
		return 0
	}
	return fi.Size()
}

func last(s string, n int) string { return s[max(0, len(s)-n):] }

// Facts returns the key=value words of a marker line.
func Facts(line string) map[string]string {
	facts := map[string]string{}
	for _, word := range strings.Fields(line) {
		if k, v, ok := strings.Cut(word, "="); ok {
			facts[k] = v
		}
	}
	return facts
}
