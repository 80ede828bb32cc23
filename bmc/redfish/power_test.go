package redfish

import (
	"net/http"
	"strings"
	"testing"

	"bessemer/bmc"
)

func TestPower(t *testing.T) {
	t.Run("graceful restart is never sent (B-10)", func(t *testing.T) {
		b := newFakeBMC(t, "B-10")
		b.power = "On"
		d := b.open(t)
		for _, a := range []bmc.PowerAction{bmc.Reset, bmc.SoftOff, bmc.Reset, bmc.ForceOff} {
			if err := d.Power(t.Context(), a); err != nil {
				t.Errorf("%s: %v", a, err)
			}
		}
		want := "PowerCycle PushPowerButton On ForceOff"
		got := strings.NewReplacer(`{"ResetType":"`, "", `"}`, "").Replace(strings.Join(b.bodies, " "))
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("refused but done (B-09)", func(t *testing.T) {
		if err := newFakeBMC(t, "B-09").open(t).Power(t.Context(), bmc.On); err != nil {
			t.Error(err)
		}
	})
	t.Run("between two states (B-21)", func(t *testing.T) {
		for _, s := range []string{"PoweringOn", "Paused", "", "Weird"} {
			b := newFakeBMC(t)
			b.power = s
			if got, err := b.open(t).PowerState(t.Context()); got != "" || err != nil {
				t.Errorf("%q: got %q, %v, want no state", s, got, err)
			}
		}
	})
}

// TestLostAnswerIsNotRepeated has the controller act and drop the connection.
func TestLostAnswerIsNotRepeated(t *testing.T) {
	b := newFakeBMC(t)
	b.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "Reset") {
			return false
		}
		b.mu.Lock()
		b.power = "On"
		b.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	b.Config.ErrorLog = nil
	if err := b.open(t).Power(t.Context(), bmc.On); err != nil {
		t.Fatal(err)
	}
	if n := b.count("POST " + systemPath + "/Actions/ComputerSystem.Reset"); n != 1 {
		t.Errorf("got %d resets, want 1 (R-12)", n)
	}
}
