package sim_test

import (
	"context"
	"testing"

	"bessemer/bmc"
)

// TestRequests holds the driver to few requests: with a thousand controllers
// each one counts. The reads that wait for a machine to change its state come
// on top where it takes its time; here it takes none.
func TestRequests(t *testing.T) {
	b := newBenchOf(t, 0)
	c, once := b.client, bmc.Boot{Device: bmc.PXE, Mode: "uefi"}
	for _, tt := range []struct {
		name string
		do   func(context.Context) error
		most int
	}{
		{"first power state: root, login, system", func(ctx context.Context) error { _, err := c.PowerState(ctx); return err }, 3},
		{"power state", func(ctx context.Context) error { _, err := c.PowerState(ctx); return err }, 1},
		{"power on: before, the action, after", c.PowerOn, 3},
		{"power on, when it is", c.PowerOn, 1},
		{"set boot device: change and read back", func(ctx context.Context) error { return c.SetBoot(ctx, once) }, 3},
		{"reboot: off and on", c.Reboot, 6},
		{"power off", c.PowerOff, 3},
		{"identify: system, manager, two cards", func(ctx context.Context) error { _, err := c.Identify(ctx); return err }, 5},
	} {
		before := b.count("")
		b.ok(tt.name, tt.do(t.Context()))
		n := b.count("") - before
		t.Logf("%s: %d", tt.name, n)
		if n > tt.most {
			t.Errorf("%s: %d requests, want at most %d", tt.name, n, tt.most)
		}
	}
}
