//go:build linux

package lab

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/store"
)

func TestMain(m *testing.M) { Main(m) }

// machineConfig is a machine of each firmware, as different as they can be.
func machineConfig(mode string) sim.QEMUConfig {
	c := sim.QEMUConfig{Spec: sim.Spec{
		Name: "bios-1", UUID: "16b7275a-4a72-508c-9b1f-0a1b2c3d4e01", Manufacturer: "Bessemer", Model: "Simulated, small", Serial: "SN-1",
		Modes: []string{sim.BIOS},
		NICs:  []sim.NIC{{MAC: "52:54:00:be:55:01", Model: "e1000e"}},
		Disks: []sim.Disk{{Bus: sim.SATA, Size: 2 << 30, Serial: "DISK-B"}},
	}}
	if mode == sim.UEFI {
		c.Name, c.UUID, c.Modes = "uefi-1", "16b7275a-4a72-508c-9b1f-0a1b2c3d4e02", []string{sim.UEFI}
		c.NICs = []sim.NIC{{MAC: "52:54:00:be:55:02", Model: "virtio-net-pci", NoROM: true}}
		c.Disks = []sim.Disk{{Bus: sim.NVMe, Size: 2 << 30, Serial: "DISK-U"}}
	}
	return c
}

// The test images boot from the disk of either firmware, find the config
// drive, and obey a graceful power off. Debian's is only tried where it was
// built (testdata/images/build-debian.sh).
func TestImageBoots(t *testing.T) {
	if testing.Short() {
		t.Skip("boots machines")
	}
	l, images := New(t), TinyImage(t)
	for _, image := range []string{"tiny", "debian"} {
		for _, mode := range []string{sim.BIOS, sim.UEFI} {
			t.Run(image+" "+mode, func(t *testing.T) {
				raw := filepath.Join(images, image+".raw")
				if _, err := os.Stat(raw); err != nil {
					t.Skipf("no image: %v", err)
				}
				c := machineConfig(mode)
				c.Name += "-" + image
				bootImage(t, l.Machine(c), raw, mode)
			})
		}
	}
}

func bootImage(t *testing.T, m *sim.QEMU, raw, mode string) {
	t.Helper()
	data := "#!/bin/sh\necho hello\n"
	want := map[string]string{
		"fw": mode, "host": "test-" + mode, "uuid": "0d6f2a5e-1111-4222-8333-444455556666",
		"user_data": fmt.Sprintf("%x", sha256.Sum256([]byte(data))),
	}
	drive := ConfigDrive(t, map[string]string{
		"meta_data.json": fmt.Sprintf(`{"uuid": %q, "hostname": %q}`, want["uuid"], want["host"]), "user_data": data,
	})
	Install(t, m.Spec().Disks[0].Path, raw, drive)
	start := time.Now()
	if err := m.Power(t.Context(), bmc.On); err != nil {
		t.Fatal(err)
	}
	line := WaitConsole(t, m, 0, Marker, 10*time.Minute)
	t.Logf("%.1f s to: %s", time.Since(start).Seconds(), line)
	got := Facts(line)
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: got %q, want %q", k, got[k], v)
		}
	}
	softOff(t, m)
}

// softOff presses the power button and waits for the machine to be off.
func softOff(t *testing.T, m *sim.QEMU) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for m.PowerState() != store.PowerOff {
		if time.Now().After(deadline) {
			t.Fatalf("machine %s is %q after asking its system to power off", m.Spec().Name, m.PowerState())
		}
		// The system may need a moment until it listens for the button.
		if err := m.Power(t.Context(), bmc.SoftOff); err != nil && m.PowerState() != store.PowerOff {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
	}
	if err := m.Fault(); err != nil {
		t.Errorf("fault after a graceful power off: %v", err)
	}
}

func TestLabIsGoneAfterwards(t *testing.T) {
	var name, dir string
	t.Run("inner", func(t *testing.T) {
		l := New(t)
		name, dir = l.Name, l.Dir
		if out, err := l.Command(t.Context(), "ip", "-4", "-br", "addr", "show", "dev", Bridge).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		l.Start("sleep.log", nil, "sleep", "1000")
	})
	if name == "" {
		t.Skip("no lab here")
	}
	for _, p := range []string{"/run/netns/" + name, dir} {
		if _, err := os.Stat(p); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", p, err)
		}
	}
}
