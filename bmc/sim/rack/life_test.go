package rack

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"bessemer/agent/wire"
	"bessemer/bmc"
	"bessemer/pxe"
	"bessemer/store"
)

// TestLife takes a machine through its life over the real protocols: power and
// boot device by its controller, network boot, agent, image, boot from disk.
func TestLife(t *testing.T) {
	for _, protocol := range []string{"redfish", "ipmi"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			a := newAppliance(t)
			m := newRack(t, a, func(o *Options) { o.BMC = protocol }).Machines()[0]
			d := driver(t, m)
			deploy(t, a, m, d)
			if state, err := d.PowerState(t.Context()); state != store.PowerOn || err != nil {
				t.Errorf("the controller says %q, %v", state, err)
			}
			want := "power:on/bmc start:uefi boot:network agent:runs write: power:force off/bmc off: power:on/bmc start:uefi boot:disk home:"
			if got := shape(journalOf(t, m)); got != want {
				t.Errorf("journal\n%s, want\n%s", got, want)
			}
			checkEvidence(t, a, m)
		})
	}
}

// deploy does what a conductor does, in short.
func deploy(t *testing.T, a *appliance, m *Machine, d bmc.Driver) {
	t.Helper()
	must(t, d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}))
	must(t, d.Power(t.Context(), bmc.On))
	b := a.await()
	if m.Boot().Device != "" {
		t.Errorf("the override %s has outlived its start", m.Boot())
	}
	if c, err := a.write(b); err != nil || c.Status != wire.Succeeded {
		t.Fatalf("write image: %+v, %v", c, err)
	}
	a.set(pxe.Local)
	must(t, d.SetBoot(t.Context(), bmc.Boot{Device: bmc.Disk, Mode: "uefi", Persistent: true}))
	must(t, d.Power(t.Context(), bmc.ForceOff))
	reach(t, m, StageOff)
	must(t, d.Power(t.Context(), bmc.On))
	reach(t, m, StageRunning)
}

// checkEvidence compares the journal with what was really done.
func checkEvidence(t *testing.T, a *appliance, m *Machine) {
	t.Helper()
	s := m.Status()
	for _, e := range journalOf(t, m) {
		switch {
		case e.Kind == Boot && e.What == viaNetwork:
			if !strings.Contains(e.Text, a.sums[0]) || !strings.Contains(e.Text, a.sums[1]) {
				t.Errorf("network boot without the sums of kernel and initramfs: %s", e.Text)
			}
			for _, from := range a.sources {
				if !strings.HasPrefix(from, e.Lease+":") {
					t.Errorf("the agent with lease %s asks from %s", e.Lease, from)
				}
			}
		case e.Kind == Write:
			if e.First != 0 || e.Last < int64(len(a.image))-1 || e.Bytes < int64(len(a.image)) || m.Status().Totals.Written[e.Disk] != e.Bytes {
				t.Errorf("write of %d bytes: %+v, in all %d", len(a.image), e, m.Status().Totals.Written[e.Disk])
			}
		}
	}
	if s.Totals.Starts != 2 || s.Totals.Homes != 1 || s.Totals.Power[ByBMC] != 3 {
		t.Errorf("totals %+v", s.Totals)
	}
	if !bytes.Equal(onDisk(t, m, 64<<10, len(a.image)-128<<10), a.image[64<<10:len(a.image)-64<<10]) {
		t.Error("the disk does not hold the image")
	}
}

// onDisk reads n bytes of a machine's first disk past everything.
func onDisk(t *testing.T, m *Machine, off int64, n int) []byte {
	t.Helper()
	f, err := os.Open(m.Spec().Disks[0].Path)
	must(t, err)
	defer f.Close()
	b := make([]byte, n)
	_, err = f.ReadAt(b, off)
	must(t, err)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
