package conductor

import (
	"testing"

	"bessemer/store"
)

// A machine that did not boot from the network is told from which card (B-16).
func TestCardToName(t *testing.T) {
	ports := []*store.Port{{Address: "a", PXEEnabled: true}, {Address: "b"}, {Address: "c", PXEEnabled: true}}
	for _, tt := range []struct {
		ports  []*store.Port
		starts int
		want   string
	}{
		{ports, 0, ""},
		{ports, 1, "a"},
		{ports, 2, "c"},
		{ports, 3, "a"},
		{ports[1:2], 1, ""},
	} {
		if got := cardToName(tt.ports, tt.starts); got != tt.want {
			t.Errorf("after %d starts with %d ports: got %q, want %q", tt.starts, len(tt.ports), got, tt.want)
		}
	}
}
