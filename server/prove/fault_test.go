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
	v := prove(t, "CR-2 store writes")
	for _, n := range v.numbers(writesPerTask, 1) {
		for _, when := range []store.Moment{store.BeforeWrite, store.AfterWrite} {
			errno := []syscall.Errno{syscall.ENOSPC, syscall.EIO}[v.roll(2)]
			// The first writes are the start's own.
			v.liveWith(order{Write: uint64(6 + n), Every: writesPerTask, WriteWhen: when, WriteErrno: errno}, "")
		}
	}
}

// TestAgentCallsFail is CR-2 for the calls to agents: they break off before
// the agent hears of them, or only the answer is lost.
func TestAgentCallsFail(t *testing.T) {
	v := prove(t, "CR-2 agent calls")
	for _, n := range v.numbers(callsPerTask, 1) {
		for _, lost := range []bool{false, true} {
			v.liveWith(order{Agent: int64(n + 1), Every: callsPerTask, Lost: lost}, "")
		}
	}
}

// TestMachineRequestsFail is CR-2 for what machines ask for: boot script,
// kernel, lookup, heartbeat, image, config drive.
func TestMachineRequestsFail(t *testing.T) {
	v := prove(t, "CR-2 machine requests")
	for _, n := range v.numbers(requestsPerTask, 1) {
		for _, lost := range []bool{false, true} {
			v.liveWith(order{Machines: int64(n + 1), Every: requestsPerTask, Lost: lost}, "")
		}
	}
}

// TestBMCCallsFail is CR-2 for the controllers: the n-th call of each workflow
// is refused or cut off.
func TestBMCCallsFail(t *testing.T) {
	v := prove(t, "CR-2 controller calls")
	for _, n := range v.numbers(bmcPerTask, 1) {
		for _, kind := range []flaw.Kind{flaw.BMC500, flaw.BMC503, flaw.BMCDown} {
			if *long || v.roll(3) == 0 {
				v.liveWith(order{}, fmt.Sprintf("%s:after=%d,count=1", kind, n))
			}
		}
	}
}

// numbers are all from 0 to n-1, or so many drawn ones in the short version.
func (v *verdict) numbers(n, few int) (out []int) {
	if !*long {
		for range few {
			out = append(out, v.roll(n))
		}
		return out
	}
	for i := range n {
		out = append(out, i)
	}
	return out
}

// liveWith takes a machine through its life with something failing, and judges
// it. fault is injected into the machine's controller anew for each task.
func (v *verdict) liveWith(o order, fault string) {
	v.t.Helper()
	dir := shortDir(v.t)
	o.Hits = filepath.Join(dir, "hits")
	s := newSite(v, 1, "lenovo-sr630", 0.002, o)
	defer s.over()
	m := s.rack.Machines()[0]
	uuid := s.begin(m)
	failed := 0
	for _, task := range life {
		if fault != "" {
			f, err := flaw.ParseFault(fault)
			if err != nil {
				v.t.Fatal(err)
			}
			m.Flaws().Inject(f)
		}
		n, reached := s.live(m, uuid, task, true)
		if !reached {
			failed++
			v.t.Logf("%+v %s: %s failed: %s %s", o, fault, task.name, n.State, n.Error)
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
