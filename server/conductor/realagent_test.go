package conductor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"bessemer/agent"
	"bessemer/agent/fetch"
	"bessemer/agent/hw"
	"bessemer/agent/wire"
	"bessemer/store"
)

// diskImage is the smallest image that a BIOS would start: boot code and one
// partition.
func diskImage() []byte {
	image := bytes.Repeat([]byte("bessemer"), 2<<20/8)
	for i := range image[:512] {
		image[i] = 0
	}
	copy(image, []byte{0xeb, 0x3c, 0x90, 0xfa})
	copy(image[446:], []byte{0x80, 0, 0, 0, 0x83, 0, 0, 0, 64, 0, 0, 0, 0xe8, 3, 0, 0}) // from sector 64, 1000 sectors
	image[510], image[511] = 0x55, 0xaa
	return image
}

// TestTheRealAgent holds both halves together: the agent that boots in the
// ramdisk, on a machine made of files, under this conductor.
func TestTheRealAgent(t *testing.T) {
	old := testImage
	testImage = diskImage()
	defer func() { testImage = old }()
	w := newWorld(t, func(c *Config) { c.Timeouts.Claim = 0 })
	disk := filepath.Join(t.TempDir(), "sda")
	w.m.ramdisk = func(ctx context.Context) {
		m := &hw.Fake{
			Hardware: wire.Inventory{
				Interfaces: []wire.Interface{{Name: "eth0", MACAddress: testMAC, HasCarrier: true}},
				CPU:        wire.CPU{Count: 1, Architecture: "x86_64"},
				Memory:     wire.Memory{Total: 1 << 30, PhysicalMB: 1024},
				Disks:      []wire.Disk{{Name: "/dev/sda", Size: 64 << 20, Serial: "S1", LogicalSectorSize: 512}},
				Boot:       wire.BootInfo{CurrentBootMode: "bios"},
			},
			Files: map[string]string{"/dev/sda": disk}, LogText: map[string]string{"journal": "hello"},
		}
		err := agent.Run(ctx, agent.Config{
			APIURL: w.m.api, Listen: "127.0.0.1:0", AdvertiseHost: "127.0.0.1", Version: "test", Logger: zerolog.Nop(),
			Policy: fetch.Policy{Allow: w.config.Policy.Allow},
		}, m)
		if err != nil {
			w.seen.add("agent: %v", err)
		}
	}
	w.enroll(store.Available, func(n *store.Node) {
		n.Properties = map[string]any{"capabilities": "boot_mode:bios", "root_device": map[string]any{"serial": "S1"}}
	})
	w.provision("active", func(r *ProvisionRequest) {
		r.ConfigDrive = map[string]any{"meta_data": map[string]any{"hostname": "machine-7"}}
	})
	w.wantState(w.settled(), store.Active)
	got, err := os.ReadFile(disk)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got[512:len(testImage)], testImage[512:]) || !bytes.Contains(got[len(testImage):], []byte("machine-7")) {
		t.Error("image or config drive is not on the disk")
	}
	logs, err := filepath.Glob(filepath.Join(w.config.Dir, "logs", "*.tar.gz"))
	if err != nil || len(logs) != 1 {
		t.Errorf("ramdisk logs: %v (%v)", logs, err)
	}
	w.provision("deleted")
	w.wantState(w.settled(), store.Available)
	if got, err = os.ReadFile(disk); err != nil || bytes.Contains(got, []byte("machine-7")) || got[511] == 0xaa {
		t.Errorf("the disk was not wiped (%v)", err)
	}
}
