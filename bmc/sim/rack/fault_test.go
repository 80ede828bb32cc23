package rack

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"strings"
	"testing"
	"time"

	"bessemer/agent/wire"
	"bessemer/bmc"
	"bessemer/bmc/sim/firmware"
	"bessemer/bmc/sim/flaw"
)

// start turns a machine on to boot over the network.
func start(t *testing.T, m *Machine) {
	t.Helper()
	must(t, m.SetBoot(bmc.Boot{Device: bmc.PXE}))
	must(t, m.Power(t.Context(), bmc.On))
}

func injectText(t *testing.T, m *Machine, text string) {
	t.Helper()
	f, err := flaw.ParseFault(text)
	must(t, err)
	m.Flaws().Inject(f)
}

// hits counts the hits of a fault that a journal has.
func hits(es []Event, kind flaw.Kind) (n int) {
	for _, e := range es {
		if e.Kind == Fault && e.What == string(kind) {
			n += e.Count
		}
	}
	return n
}

func TestPowerLoss(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	m := newRack(t, a, nil).Machines()[0]
	const at = 1100 << 10 // behind the first MiB, which is written last
	injectText(t, m, "power-loss:count=1,at=1100K")
	start(t, m)
	first := a.await()
	if c, err := a.write(first); err == nil {
		t.Errorf("a machine that lost its power answers %+v", c)
	}
	second := a.await() // it comes back by itself, and starts the ramdisk: the network is next after an empty disk
	if second.AgentVerifyCA == first.AgentVerifyCA {
		t.Error("the second call is of the agent that lost its power")
	}
	es := journalOf(t, m)
	want := "power:on/bmc start:uefi boot:network agent:runs fault:power-loss power:cut/cut write: start:uefi boot:network agent:runs"
	if got := shape(es); got != want {
		t.Errorf("journal\n%s, want\n%s", got, want)
	}
	kept := onDisk(t, m, at-8<<10, 16<<10)
	if !bytes.Equal(kept[:8<<10], a.image[at-8<<10:at]) || bytes.Equal(kept[8<<10:], a.image[at:at+8<<10]) {
		t.Error("the disk does not hold what came before the power went, and nothing behind")
	}
}

func TestAgentCrash(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	m := newRack(t, a, nil).Machines()[0]
	start(t, m)
	first := a.await()
	injectText(t, m, "agent-crash:after=1,count=1")
	if c, err := a.command(first, "standby.sync", nil); err != nil || c.Status != wire.Succeeded {
		t.Errorf("the command before the crash: %+v, %v", c, err)
	}
	if c, err := a.command(first, "standby.sync", nil); err == nil {
		t.Errorf("an agent that crashed answers %+v", c)
	}
	a.await() // the ramdisk has rebooted
	es := journalOf(t, m)
	want := "power:on/bmc start:uefi boot:network agent:runs fault:agent-crash agent:ended power:reset/agent start:uefi boot:network agent:runs"
	if got := shape(es); got != want || !strings.Contains(es[5].Text, errCrashed.Error()) {
		t.Errorf("journal\n%s, want\n%s; it ended because %s", got, want, es[5].Text)
	}
}

// TestDownloadFaults: what breaks a download is overcome or found out.
func TestDownloadFaults(t *testing.T) {
	for text, want := range map[string]string{ // what the failure says; "": none
		"image-cut:at=300K,count=1":     "",
		"image-cut:at=700000":           "broke",
		"image-corrupt:at=5000,count=1": "checksum",
		"disk-error:at=1100K,count=1":   "input/output error",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			a := newAppliance(t)
			m := newRack(t, a, nil).Machines()[0]
			injectText(t, m, text)
			start(t, m)
			c, err := a.write(a.await())
			must(t, err)
			switch {
			case want == "" && c.Status != wire.Succeeded:
				t.Errorf("write image: %+v", c.Error)
			case want != "" && (c.Error == nil || !strings.Contains(c.Error.Details, want)):
				t.Errorf("write image: %+v, want a failure with %q", c, want)
			}
			kind, _, _ := strings.Cut(text, ":")
			if n := hits(journalOf(t, m), flaw.Kind(kind)); n < 1 || strings.Contains(text, "count=1") && n != 1 {
				t.Errorf("the journal has %d hits", n)
			}
		})
	}
}

// TestPowerOffVanishes: an agent whose power goes in the middle of a command
// says nothing any more, and the next start does not begin before its end.
func TestPowerOffVanishes(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	m := newRack(t, a, nil).Machines()[0]
	injectText(t, m, "image-stall:at=100000,count=1")
	start(t, m)
	b := a.await()
	ended := make(chan error, 1)
	go func() {
		c, err := a.write(b)
		if err == nil {
			t.Errorf("a machine without power answers %+v", c)
		}
		ended <- err
	}()
	for m.Flaws().Hits(flaw.ImageStall) == 0 {
		time.Sleep(time.Millisecond)
	}
	must(t, m.Power(t.Context(), bmc.ForceOff))
	<-ended
	reach(t, m, StageOff)
	if es := journalOf(t, m); strings.Contains(shape(es), "agent:ended") {
		t.Errorf("the agent had a say after the power went: %s", shape(es))
	}
	if n := len(a.beats); n != 0 {
		t.Errorf("%d more heartbeats", n)
	}
	start(t, m)
	a.await()
}

// TestDeadDisks: an open disk takes nothing after the power has gone.
func TestDeadDisks(t *testing.T) {
	t.Parallel()
	m := newRack(t, nil, func(o *Options) { o.Wire = deaf{} }).Machines()[0]
	ctx, cancel := context.WithCancel(t.Context())
	r := &run{ctx: ctx, cancel: cancel}
	h := m.hardware(r, firmware.Boot{Lease: firmware.Lease{IP: netip.MustParseAddr("127.64.0.9")}})
	disks, err := h.Disks(ctx)
	must(t, err)
	d, err := powered{h, m, r}.OpenDisk(disks[0].Name, true)
	must(t, err)
	if _, err := d.WriteAt([]byte("before"), 0); err != nil {
		t.Error(err)
	}
	r.kill()
	if _, err := d.WriteAt([]byte("behind"), 0); err == nil {
		t.Error("a disk without power was written to")
	}
	must(t, d.Close())
	if b := onDisk(t, m, 0, 6); string(b) != "before" || m.Status().Totals.Written[disks[0].Name] != 6 {
		t.Errorf("on the disk is %q, the journal has %d bytes", b, m.Status().Totals.Written[disks[0].Name])
	}
}

func TestNoPOST(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	m := newRack(t, a, nil).Machines()[0]
	injectText(t, m, "no-post:count=1")
	start(t, m)
	if s := reach(t, m, StageHung); s.Why != "no POST" || m.Boot().Device != bmc.PXE {
		t.Errorf("%+v with the override %s", s, m.Boot())
	}
	must(t, m.Power(t.Context(), bmc.SoftOff)) // nobody there who would react
	must(t, m.Power(t.Context(), bmc.Reset))
	a.await()
	want := "power:on/bmc start:uefi fault:no-post hang: power:soft off/bmc power:reset/bmc start:uefi boot:network agent:runs"
	if got := shape(journalOf(t, m)); got != want {
		t.Errorf("journal\n%s, want\n%s", got, want)
	}
}

// TestClockJump: the agent's certificate is made by the machine's clock, once a
// start.
func TestClockJump(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	m := newRack(t, a, nil).Machines()[0]
	injectText(t, m, "clock-jump:delay=720h,count=1")
	must(t, m.Power(t.Context(), bmc.On)) // the disk is tried first
	until := func(b beat) time.Time {
		p, _ := pem.Decode([]byte(b.AgentVerifyCA))
		if p == nil {
			t.Fatalf("no certificate: %q", b.AgentVerifyCA)
		}
		c, err := x509.ParseCertificate(p.Bytes)
		must(t, err)
		return c.NotAfter
	}
	jumped := until(a.await())
	must(t, m.Power(t.Context(), bmc.Reset))
	if d := jumped.Sub(until(a.await())); d < 719*time.Hour || d > 721*time.Hour {
		t.Errorf("the clock jumped by %s", d)
	}
}
