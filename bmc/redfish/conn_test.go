package redfish

import (
	"net/http"
	"testing"

	"bessemer/bmc"
)

func TestNotReadyIsWaitedFor(t *testing.T) {
	b := newFakeBMC(t)
	d := b.open(t)
	b.failures = 4
	if _, err := d.PowerState(t.Context()); err != nil {
		t.Errorf("read: %v", err)
	}
	b.failures = 2
	if err := d.Power(t.Context(), bmc.On); err != nil || b.power != "On" {
		t.Errorf("power on: %v, state %s", err, b.power)
	}
}

func TestDroppedConnectionIsRetriedForReads(t *testing.T) {
	b := newFakeBMC(t)
	d := b.open(t)
	drops := 2
	b.answer = func(w http.ResponseWriter, r *http.Request) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if r.URL.Path == systemPath && drops > 0 {
			drops--
			panic(http.ErrAbortHandler)
		}
		return false
	}
	if _, err := d.PowerState(t.Context()); err != nil {
		t.Error(err)
	}
}

// A controller drops a connection when it is used a second time. No
// request may be lost that cannot be made again.
func TestConnectionThatServesOnce(t *testing.T) {
	b := newFakeBMC(t, "R-07")
	d := b.open(t)
	if err := d.Power(t.Context(), bmc.On); err != nil || b.power != "On" {
		t.Errorf("power on: %v, state %s", err, b.power)
	}
	if err := d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}); err != nil {
		t.Errorf("set boot: %v", err)
	}
	if n := b.count("POST " + systemPath + "/Actions/ComputerSystem.Reset"); n != 1 || b.made != 1 {
		t.Errorf("%d resets and %d sessions, want one of each", n, b.made)
	}
	if err := d.Close(); err != nil || len(b.tokens) != 0 {
		t.Errorf("close: %v, %d sessions left", err, len(b.tokens))
	}
}
