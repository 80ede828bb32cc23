package prove

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bessemer/bmc/sim/flaw"
	"bessemer/bmc/sim/rack"
	"bessemer/store"
)

// Of CR-2: how many writes of the store, calls to an agent, requests of a
// machine and calls to a controller one workflow takes at most. One of them
// fails in each workflow, and each in some life.
const (
	writesPerTask   = 40
	callsPerTask    = 12
	requestsPerTask = 25
	bmcPerTask      = 24
)

// TestStoreWritesFail is CR-2 for the store: one in so many of its write
// transactions fails, before it or after it, and each in some life.
func TestStoreWritesFail(t *testing.T) {
	t.Parallel()
	v := prove(t, "CR-2 store writes")
	v.lives(t, writesPerTask, 2, func(n, kind int) (order, string) {
		// The first writes are the start's own.
		o := order{Write: uint64(6 + n), Every: writesPerTask, WriteErrno: []syscall.Errno{syscall.ENOSPC, syscall.EIO}[v.roll(2)]}
		o.WriteWhen = []store.Moment{store.BeforeWrite, store.AfterWrite}[kind]
		return o, ""
	})
}

// TestAgentCallsFail is CR-2 for the calls to agents: they break off before
// the agent hears of them, or only the answer is lost.
func TestAgentCallsFail(t *testing.T) {
	t.Parallel()
	v := prove(t, "CR-2 agent calls")
	v.lives(t, callsPerTask, 2, func(n, kind int) (order, string) {
		return order{Agent: int64(n + 1), Every: callsPerTask, Lost: kind == 1}, ""
	})
}

// TestMachineRequestsFail is CR-2 for what machines ask for: boot script,
// kernel, lookup, heartbeat, image, config drive.
func TestMachineRequestsFail(t *testing.T) {
	t.Parallel()
	v := prove(t, "CR-2 machine requests")
	v.lives(t, requestsPerTask, 2, func(n, kind int) (order, string) {
		return order{Machines: int64(n + 1), Every: requestsPerTask, Lost: kind == 1}, ""
	})
}

// TestBMCCallsFail is CR-2 for the controllers: the n-th call of each workflow
// is refused or cut off.
func TestBMCCallsFail(t *testing.T) {
	t.Parallel()
	v := prove(t, "CR-2 controller calls")
	kinds := []flaw.Kind{flaw.BMC500, flaw.BMC503, flaw.BMCDown}
	v.lives(t, bmcPerTask, len(kinds), func(n, kind int) (order, string) {
		return order{}, fmt.Sprintf("%s:after=%d,count=1", kinds[kind], n)
	})
}

// lives has machines live, one for each number and each kind of fault, several
// at once. The short version draws one.
func (v *verdict) lives(t *testing.T, numbers, kinds int, faulty func(n, kind int) (order, string)) {
	drawn := v.roll(numbers * kinds)
	for i := range numbers * kinds {
		if !*long && i != drawn {
			continue
		}
		o, fault := faulty(i/kinds, i%kinds)
		t.Run(fmt.Sprintf("n=%d,kind=%d", i/kinds, i%kinds), func(t *testing.T) {
			t.Parallel()
			v.liveWith(t, o, fault)
		})
	}
}

// liveWith takes a machine through its life with something failing, and judges
// it. fault is injected into the machine's controller anew for each task.
func (v *verdict) liveWith(t *testing.T, o order, fault string) {
	dir := shortDir(t)
	o.Hits = filepath.Join(dir, "hits")
	s := newSite(t, v, 1, "lenovo-sr630", 0.002, o)
	defer s.over()
	m := s.rack.Machines()[0]
	uuid := s.begin(m)
	failed := 0
	for _, task := range life {
		if fault != "" {
			f, err := flaw.ParseFault(fault)
			if err != nil {
				t.Fatal(err)
			}
			m.Flaws().Inject(f)
		}
		n, reached := s.live(m, uuid, task, true)
		if !reached {
			failed++
			t.Logf("%+v %s: %s failed: %s %s", o, fault, task.name, n.State, n.Error)
			s.recover(m, uuid, task)
		}
	}
	hits, _ := os.ReadFile(o.Hits)
	faults := strings.Count(string(hits), "\n") + faultsOf(m)
	v.count(len(life), faults, faults)
	v.mu.Lock()
	v.ended += failed
	v.Note = fmt.Sprintf("%d workflows ended in a clear failure, and went well when asked for again", v.ended)
	v.mu.Unlock()
	s.stop()
	s.judge()
}

// faultsOf is how many injected faults have hit a machine.
func faultsOf(m *rack.Machine) (n int) {
	for _, k := range flaw.Kinds() {
		n += m.Flaws().Hits(k)
	}
	return n
}

// over ends a site before the test does.
func (s *site) over() {
	s.stop()
	if err := s.rack.Close(); err != nil {
		s.t.Errorf("close rack: %v", err)
	}
}
