package redfish

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"bessemer/bmc"
)

// TestWhoseLossInTheBootOrder: only what our setting has just taken out of the
// boot order (B-17) is put back. The rest of what happens to it is none of our
// business.
func TestWhoseLossInTheBootOrder(t *testing.T) {
	power := func(ctx context.Context, d *driver, _ *fakeBMC) error { return d.Power(ctx, bmc.On) }
	for _, tt := range []struct {
		name    string
		mode    string // of the override before
		refused bool
		then    func(context.Context, *driver, *fakeBMC) error // between the setting and the loss
		want    bool
	}{
		{name: "by the setting", mode: "UEFI", want: true},
		{name: "by a setting without a mode", want: true},
		{name: "by a change of the mode", mode: "Legacy"},
		{name: "after a refusal", mode: "UEFI", refused: true},
		{name: "after a start", mode: "UEFI", then: power},
		{name: "later", mode: "UEFI", then: func(_ context.Context, d *driver, _ *fakeBMC) error {
			d.order.at = d.order.at.Add(-orderFor)
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newFakeBMC(t)
			b.boot["BootOrder"], b.boot["BootSourceOverrideMode"] = []string{"Boot0001", "Boot0002"}, tt.mode
			b.answer = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPatch && tt.refused {
					fail(w, http.StatusBadRequest, "", "refused")
				}
				return r.Method == http.MethodPatch && tt.refused
			}
			d := b.open(t)
			if err := d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}); (err != nil) != tt.refused {
				t.Fatal(err)
			}
			if tt.then != nil {
				if err := tt.then(t.Context(), d, b); err != nil {
					t.Fatal(err)
				}
			}
			b.mu.Lock()
			b.boot["BootOrder"] = []string{"Boot0002"}
			b.answer = nil
			b.mu.Unlock()
			if _, err := d.Boot(t.Context()); err != nil {
				t.Fatal(err)
			}
			wrote := strings.Contains(strings.Join(b.bodies, " "), `{"BootOrder":["Boot0001","Boot0002"]}`)
			if wrote != tt.want {
				t.Errorf("wrote the old order: %v, want %v; bodies %v", wrote, tt.want, b.bodies)
			}
		})
	}
}
