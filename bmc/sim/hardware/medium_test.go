package hardware

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"bessemer/bmc/sim/flaw"
)

func newMachine(t *testing.T, c Config) *Machine {
	t.Helper()
	c.Spec, c.Profile = tiny.Build("m", 1, 1, t.TempDir()), tiny
	if c.Pace == 0 {
		c.Pace = 0.01
	}
	return New(c)
}

// TestFaultAtAByte: what comes before the byte is on the medium, nothing behind
// it is.
func TestFaultAtAByte(t *testing.T) {
	for _, kind := range []flaw.Kind{flaw.DiskError, flaw.PowerLoss} {
		lost := 0
		var written int64
		flaws := flaw.NewSet(1)
		m := newMachine(t, Config{Flaws: flaws, OnPowerLoss: func() { lost++ }, OnWrite: func(_ string, _, n int64) { written += n }})
		flaws.Inject(flaw.Fault{Kind: kind, At: 5000, Count: 1})
		d, err := m.OpenDisk("/dev/vda", true)
		if err != nil {
			t.Fatal(err)
		}
		ones := bytes.Repeat([]byte{1}, 4096)
		if n, err := d.WriteAt(ones, 0); n != 4096 || err != nil {
			t.Errorf("%s: a write before the byte: %d, %v", kind, n, err)
		}
		if n, err := d.WriteAt(ones, 4096); n != 5000-4096 || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: the write of the byte: %d, %v", kind, n, err)
		}
		f, err := os.Open(m.disks[0].path)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 8192)
		_, err = f.ReadAt(got, 0)
		f.Close()
		if err != nil || bytes.Count(got, []byte{1}) != 5000 || written != 5000 {
			t.Errorf("%s: %d bytes were written, %d reported, %v", kind, bytes.Count(got, []byte{1}), written, err)
		}
		_, err = d.WriteAt(ones, 4096)
		if dead := kind == flaw.PowerLoss; (err != nil) != dead || (lost == 1) != dead {
			t.Errorf("%s: the next write: %v; power was lost %d times", kind, err, lost)
		}
		d.Close()
	}
}

// TestPowerLossIsTheCallers, when it does not say what to do.
func TestPowerLossIsTheCallers(t *testing.T) {
	flaws := flaw.NewSet(1)
	flaws.Inject(flaw.Fault{Kind: flaw.PowerLoss, At: 1})
	m := newMachine(t, Config{Flaws: flaws})
	d, err := m.OpenDisk("/dev/vda", true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.WriteAt(make([]byte, 512), 0); err != nil || flaws.Hits(flaw.PowerLoss) != 0 {
		t.Errorf("%v, %d hits", err, flaws.Hits(flaw.PowerLoss))
	}
}

func TestCut(t *testing.T) {
	m := newMachine(t, Config{})
	d, err := m.OpenDisk("/dev/vda", true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m.Cut()
	_, werr := d.WriteAt([]byte("x"), 0)
	_, rerr := d.ReadAt(make([]byte, 1), 0)
	_, oerr := m.OpenDisk("/dev/vda", false)
	for _, err := range []error{werr, rerr, oerr, d.Zero(0, 512), d.Sync(), d.Discard()} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("without power: %v", err)
		}
	}
}

// TestQuirksTurnWhileTheMachineRuns, in both directions.
func TestQuirksTurnWhileTheMachineRuns(t *testing.T) {
	flaws := flaw.NewSet(1)
	m := newMachine(t, Config{Flaws: flaws, IP: netip.MustParseAddr("127.64.0.1"), Pace: 100})
	count := func() int {
		disks, err := m.Disks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(disks)
	}
	for id, want := range map[flaw.ID]int{"K-05": 0, "K-07": 2, "K-09": 2, "K-10": 5, "K-17": 2, "K-20": 2, "K-25": 2, "V-14": 3} {
		flaws.Turn(true, id)
		if n := count(); n != want {
			t.Errorf("%s: %d disks, want %d", id, n, want)
		}
		flaws.Turn(false, id)
		if n := count(); n != 1 {
			t.Errorf("%s turned off: %d disks, want 1", id, n)
		}
	}
}

func TestClocks(t *testing.T) {
	flaws := flaw.NewSet(1)
	off := func(m *Machine) time.Duration { return time.Until(m.Now()).Round(time.Hour) }
	m := newMachine(t, Config{Flaws: flaws})
	flaws.Turn(true, "A-03")
	if off(m) != 5*time.Hour {
		t.Errorf("the clock is off by %s", off(m))
	}
	flaws.Turn(false, "A-03")
	flaws.Inject(flaw.Fault{Kind: flaw.ClockJump, Delay: -3 * time.Hour, Count: 1})
	if jumped := newMachine(t, Config{Flaws: flaws, IP: netip.MustParseAddr("127.64.0.1")}); off(m) != 0 || off(jumped) != -3*time.Hour {
		t.Errorf("the clock is off by %s before and %s after a start", off(m), off(jumped))
	}
}
