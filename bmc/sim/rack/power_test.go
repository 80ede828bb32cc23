package rack

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/firmware"
	"bessemer/pxe"
	"bessemer/store"
)

// deaf is a network that nobody answers on.
type deaf struct{}

func (deaf) DHCP(context.Context, []byte, int) ([]byte, error) { return nil, nil }
func (deaf) TFTP() netip.AddrPort                              { return netip.AddrPort{} }
func (deaf) Ramdisk() (kernel, initrd string)                  { return "", "" }

func TestPower(t *testing.T) {
	t.Parallel()
	m := newRack(t, nil, func(o *Options) { o.Wire = deaf{} }).Machines()[0]
	for _, a := range []bmc.PowerAction{bmc.SoftOff, bmc.Reset, sim.Restart} {
		if err := m.Power(t.Context(), a); !errors.Is(err, sim.ErrOff) {
			t.Errorf("%s while off: %v", a, err)
		}
	}
	if err := m.Power(t.Context(), "dance"); !errors.Is(err, bmc.ErrUnsupported) {
		t.Errorf("an action that there is not: %v", err)
	}
	kept := func(want bool) {
		t.Helper()
		var st state
		if _, err := load(filepath.Join(m.dir, stateFile), &st); err != nil || st.On != want {
			t.Errorf("a kill now would leave the machine on: %v, %v; want %v", st.On, err, want)
		}
	}
	must(t, m.Power(t.Context(), bmc.ForceOff))
	must(t, m.Power(t.Context(), bmc.On))
	kept(true)
	must(t, m.Power(t.Context(), bmc.ForceOff))
	kept(false)
	must(t, m.Power(t.Context(), bmc.On))
	reach(t, m, StageNoBoot)
	if s := m.PowerState(); s != store.PowerOn {
		t.Errorf("a machine that finds nothing to boot is %q (B-20)", s)
	}
	must(t, m.Power(t.Context(), bmc.Reset))
	if s := m.PowerState(); s != store.PowerOn {
		t.Errorf("during a reset the machine is %q", s)
	}
	reach(t, m, StageNoBoot)
	must(t, m.Power(t.Context(), bmc.SoftOff)) // firmware turns off at once
	reach(t, m, StageOff)
	s := m.Status()
	if s.Totals.Starts < 2 || s.Totals.Power[ByBMC] != 6 || s.Totals.Hangs < 2 {
		t.Errorf("totals %+v", s.Totals)
	}
}

func TestBootSetting(t *testing.T) {
	t.Parallel()
	m := newRack(t, nil, func(o *Options) { o.Wire = deaf{} }).Machines()[0]
	if err := m.SetBoot(bmc.Boot{Device: bmc.BIOSSetup}); !errors.Is(err, sim.ErrBootDevice) {
		t.Errorf("boot device that there is not: %v", err)
	}
	if err := m.SetBootMode("coreboot"); !errors.Is(err, sim.ErrBootMode) {
		t.Errorf("boot mode that there is not: %v", err)
	}
	must(t, m.SetBoot(bmc.Boot{Device: bmc.PXE, Mode: sim.BIOS, Persistent: true}))
	if m.BootMode() != sim.UEFI || m.NextBootMode() != sim.BIOS {
		t.Errorf("before the start: mode %s, next %s", m.BootMode(), m.NextBootMode())
	}
	must(t, m.Power(t.Context(), bmc.On))
	s := reach(t, m, StageNoBoot)
	if m.BootMode() != sim.BIOS || m.Boot().Device != bmc.PXE || !m.Boot().Persistent {
		t.Errorf("after the start: mode %s, override %s", m.BootMode(), m.Boot())
	}
	if !strings.HasPrefix(s.Why, "pxe: ") || !strings.Contains(s.Why, "; disk: ") {
		t.Errorf("tried %q, want the override first", s.Why)
	}
	must(t, m.SetBoot(bmc.Boot{}))
	if m.Boot() != (bmc.Boot{}) || m.NextBootMode() != sim.BIOS {
		t.Errorf("removed: %s, next mode %s", m.Boot(), m.NextBootMode())
	}
}

// TestClosedRackWritesNothing: what asks too late does not write into a
// directory that may be another rack's, or is being removed.
func TestClosedRackWritesNothing(t *testing.T) {
	t.Parallel()
	r := newRack(t, nil, func(o *Options) { o.Wire = deaf{} })
	m := r.Machines()[0]
	must(t, m.Power(t.Context(), bmc.On))
	reach(t, m, StageNoBoot)
	must(t, r.Close())
	must(t, os.RemoveAll(m.dir))
	_ = m.SetBoot(bmc.Boot{Device: bmc.PXE})
	m.Turn(true, "B-01")
	if err := m.Act(bmc.On, ByHand); err == nil {
		t.Error("a machine of a closed rack was turned on")
	}
	must(t, os.Mkdir(m.dir, 0o700))
	_ = m.SetBoot(bmc.Boot{})
	m.Turn(false, "B-01")
	if left, err := os.ReadDir(m.dir); err != nil || len(left) != 0 {
		t.Errorf("after its end the rack wrote %v, %v", left, err)
	}
}

// TestOverrideIsUsedOnce: setting the boot mode while a start uses up the
// override does not bring it back.
func TestOverrideIsUsedOnce(t *testing.T) {
	t.Parallel()
	m := newRack(t, nil, func(o *Options) { o.Wire = deaf{} }).Machines()[0]
	r := &run{}
	m.mu.Lock()
	m.run = r
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.run = nil // it has no goroutine that ends
		m.mu.Unlock()
	}()
	for range 200 {
		must(t, m.SetBoot(bmc.Boot{Device: bmc.PXE}))
		var setting sync.WaitGroup
		for range 4 {
			setting.Go(func() {
				if err := m.SetBootMode(sim.BIOS); err != nil {
					t.Error(err)
				}
			})
		}
		runtime.Gosched()
		b, ok := m.takeBoot(r)
		setting.Wait()
		if !ok || b.Device != bmc.PXE || m.Boot().Device != "" {
			t.Fatalf("a start used %s, and the next one will use %s", b, m.Boot())
		}
	}
}

// TestTriesLeaveNothing: a machine that finds nothing to boot tries for days.
func TestTriesLeaveNothing(t *testing.T) {
	t.Parallel()
	m := newRack(t, nil, func(o *Options) { o.Wire, o.Pace = deaf{}, 0.001 }).Machines()[0]
	must(t, m.Power(t.Context(), bmc.On))
	tries := 0
	for end := time.Now().Add(patience); tries < 5 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		screen, _ := os.ReadFile(m.Console()) // is not there at first
		tries = bytes.Count(screen, []byte("\ndisk: "))
	}
	m.mu.Lock()
	r := m.run
	m.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if tries < 5 || len(r.off) > 1 {
		t.Errorf("after %d tries the start holds on to %d machines' hardware", tries, len(r.off))
	}
}

// TestOverrideQuirk: what the controller makes of an override reaches the start
// (B-01), and a long POST is one (B-22).
func TestOverrideQuirk(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	m := newRack(t, a, nil).Machines()[0]
	d := driver(t, m)
	deploy(t, a, m, d)
	a.set(pxe.Ramdisk)
	m.Turn(true, "B-01")
	must(t, m.SetBoot(bmc.Boot{Device: bmc.PXE}))
	must(t, m.Power(t.Context(), bmc.Reset))
	reach(t, m, StageRunning)
	for m.Status().Totals.Homes != 2 {
		reach(t, m, StageRunning)
	}
	must(t, m.SetBoot(bmc.Boot{Device: bmc.PXE}))
	must(t, m.Power(t.Context(), bmc.Reset))
	a.await()

	m.Turn(true, "B-22")
	m.Turn(false, "B-01")
	if long := m.post(); long != m.takes(timeLongPOST) || m.flaws.On("B-01") {
		t.Errorf("POST takes %v", long)
	}
}

// TestUnwanted: a machine that the appliance has no use for asks again, and the
// journal has it once.
func TestUnwanted(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	a.set(pxe.Local)
	m := newRack(t, a, nil).Machines()[0]
	must(t, m.Power(t.Context(), bmc.On))
	reach(t, m, StageNoBoot)
	for m.Status().Stage == StageNoBoot {
		time.Sleep(time.Millisecond)
	}
	if s := reach(t, m, StageNoBoot); !strings.Contains(s.Why, errNext.Error()) {
		t.Errorf("it does not boot because %s", s.Why)
	}
	if got, want := shape(journalOf(t, m)), "power:on/bmc start:uefi boot:exit hang:"; got != want {
		t.Errorf("journal %s, want %s", got, want)
	}
}

// TestScriptEndsMachine: a boot script may turn the machine off, or reset it.
func TestScriptEndsMachine(t *testing.T) {
	t.Parallel()
	m := newRack(t, nil, func(o *Options) { o.Wire = deaf{} }).Machines()[0]
	for action, want := range map[firmware.Action]string{
		firmware.Off:    "power:force off/firmware off:",
		firmware.Reboot: "power:reset/firmware start:uefi",
	} {
		must(t, m.Power(t.Context(), bmc.On))
		reach(t, m, StageNoBoot)
		m.mu.Lock()
		r := m.run
		m.mu.Unlock()
		seen := len(journalOf(t, m))
		must(t, m.booted(r, firmware.Boot{Action: action}))
		for end := time.Now().Add(patience); len(journalOf(t, m)) < seen+2 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if got := shape(journalOf(t, m)[seen:]); !strings.HasPrefix(got, want) {
			t.Errorf("%s: journal %q, want %q", action, got, want)
		}
		must(t, m.Power(t.Context(), bmc.ForceOff))
		reach(t, m, StageOff)
	}
}

// TestSoftOff: a running system shuts down, the ramdisk too.
func TestSoftOff(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	m := newRack(t, a, nil).Machines()[0]
	d := driver(t, m)
	deploy(t, a, m, d)
	must(t, d.Power(t.Context(), bmc.SoftOff))
	reach(t, m, StageOff)
	a.set(pxe.Ramdisk)
	start(t, m)
	b := a.await()
	must(t, m.Power(t.Context(), sim.Restart))
	start(t, m) // it is on: nothing happens but the override
	if second := a.await(); second.AgentVerifyCA == b.AgentVerifyCA {
		t.Error("the agent outlived a restart")
	}
}

// TestInBand: what the agent does to the machine's power happens, and is the
// agent's doing.
func TestInBand(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	m := newRack(t, a, nil).Machines()[0]
	start(t, m)
	b := a.await()
	if _, err := a.command(b, "standby.run_image", nil); err != nil {
		t.Logf("the answer did not arrive: %v", err)
	}
	b = a.await()
	if _, err := a.command(b, "standby.power_off", nil); err != nil {
		t.Logf("the answer did not arrive: %v", err)
	}
	reach(t, m, StageOff)
	want := "power:on/bmc start:uefi boot:network agent:runs power:reset/agent start:uefi boot:network agent:runs power:force off/agent off:"
	if got := shape(journalOf(t, m)); got != want {
		t.Errorf("journal\n%s, want\n%s", got, want)
	}
}
