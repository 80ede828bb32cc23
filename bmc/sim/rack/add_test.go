package rack

import (
	"net"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAddInPart: what could be added before an address was found taken is there
// for good, and the machine that has no controller is not.
func TestAddInPart(t *testing.T) {
	t.Parallel()
	o := options(t, nil, func(o *Options) { o.Wire, o.BMC = deaf{}, protocolRedfish })
	r, err := New(o)
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	must(t, r.Open())
	taken, err := net.Listen("tcp4", netip.AddrPortFrom(address(r.network, 2), redfishPort).String())
	must(t, err)
	defer taken.Close()

	added, err := r.Add(3, "tiny")
	if err == nil || len(added) != 1 || len(r.Machines()) != 2 || r.Machine("sim-003") != nil {
		t.Errorf("added %d machines to 1, with sim-003's address taken: there are %d, %v", len(added), len(r.Machines()), err)
	}
	kept := func(want ...string) {
		t.Helper()
		var l layout
		_, err := load(filepath.Join(o.Dir, rackFile), &l)
		if diff := cmp.Diff(want, l.Machines); err != nil || diff != "" {
			t.Errorf("after a kill there would be (-want +got), %v:\n%s", err, diff)
		}
	}
	kept("tiny", "tiny")
	must(t, taken.Close())
	if added, err := r.Add(1, "dell-r640"); err != nil || len(added) != 1 || added[0].Name() != "sim-003" {
		t.Errorf("added %v, %v", added, err)
	}
	kept("tiny", "tiny", "dell-r640")
}
