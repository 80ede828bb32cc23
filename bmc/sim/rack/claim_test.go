package rack

import (
	"net/netip"
	"testing"
)

// Racks that begin at a time have no controller on the network yet by which
// others could tell what is taken, and keep apart nevertheless.
func TestRacksThatBeginAtATime(t *testing.T) {
	seen := map[netip.Addr]bool{}
	var last *Rack
	for range 4 {
		r, err := New(options(t, nil, func(o *Options) { o.Wire, o.Machines = deaf{}, 2 }))
		must(t, err)
		t.Cleanup(func() { _ = r.Close() })
		if seen[r.network] {
			t.Errorf("two racks begin at %s", r.network)
		}
		seen[r.network] = true
		last = r
	}
	must(t, last.Close())
	claims, all := claimNetwork(last.network, 2)
	defer closeAll(claims)
	if !all {
		t.Errorf("%s is still claimed by a rack that is closed", last.network)
	}
}
