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
		tries  int
		want   string
	}{
		{ports, 0, 0, ""},
		{ports, 1, 0, "a"},
		{ports, 1, 1, ""},
		{ports, 2, 0, "c"},
		{ports, 3, 0, "a"},
		{ports[1:2], 1, 0, ""},
	} {
		if got := cardToName(tt.ports, tt.starts, tt.tries); got != tt.want {
			t.Errorf("after %d starts and %d tries with %d ports: got %q, want %q", tt.starts, tt.tries, len(tt.ports), got, tt.want)
		}
	}
}
