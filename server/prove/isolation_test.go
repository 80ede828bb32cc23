package prove

import (
	"fmt"
	"testing"
	"time"

	"bessemer/bmc/sim/flaw"
)

// TestBadControllersSlowNobody: while every fifth controller takes requests
// and never answers, and there are more of them than workers, power operations
// of all other machines come to their end; those of the bad ones still wait
// then. That the others are no slower either is what make bench measures.
func TestBadControllersSlowNobody(t *testing.T) {
	v := prove(t, "isolation")
	const machines, workers = 30, 4
	s := newSite(t, v, machines, "tiny", 0.01, order{}, "BESSEMER_CONDUCTOR_WORKERS=4", "BESSEMER_BMC_CALL_TIMEOUT=5m")
	all := s.rack.Machines()
	uuids := make([]string, machines)
	for i, m := range all {
		uuids[i] = s.enroll(m, nil)
		s.live(m, uuids[i], life[0], false)
	}
	power := task{name: "power on", path: "power", body: provision("power on"), want: "manageable", fails: "manageable", power: "power on"}
	var bad, good []int
	for i, m := range all {
		if i%5 != 0 {
			good = append(good, i)
			continue
		}
		bad = append(bad, i)
		m.Flaws().Inject(flaw.Fault{Kind: flaw.BMCHang})
		s.ask(uuids[i], power) // the bad ones come first in line
	}
	if len(bad) <= workers {
		t.Fatalf("%d bad controllers are too few for %d workers", len(bad), workers)
	}
	begun := time.Now()
	for _, i := range good {
		s.live(all[i], uuids[i], power, false)
	}
	pending := 0
	for _, i := range bad {
		if n := s.node(uuids[i]); n.Reserved != "" {
			pending++
		}
	}
	if pending <= workers {
		t.Errorf("%d bad controllers were still waited for when the others were done: that is not enough to show anything", pending)
	}
	took := time.Since(begun).Seconds()
	for _, i := range bad {
		all[i].Flaws().Heal()
	}
	s.kill() // calls that hang are not waited for: the next process takes the runs up again
	for _, i := range bad {
		if n := s.settle(uuids[i]); n.Power != "power on" && n.Error == "" {
			v.violated("%s is %s, and nothing says why", n.Name, n.Power)
		}
	}
	v.count(machines, len(bad), len(bad))
	v.Note = fmt.Sprintf("%d machines were done after %.1f s, %d bad ones still waited; %d workers", len(good), took, pending, workers)
	s.stop()
	s.judge()
}
