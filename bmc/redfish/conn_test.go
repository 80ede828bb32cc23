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
