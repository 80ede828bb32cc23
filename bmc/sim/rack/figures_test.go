package rack

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"bessemer/agent/wire"
	"bessemer/bmc"
	"bessemer/pxe"
)

// figures are what a process holds.
type figures struct {
	heap, stack, goroutines int
}

func measure() figures {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return figures{int(s.HeapAlloc), int(s.StackInuse), runtime.NumGoroutine()}
}

// resident is the process's memory in MB, as the system counts it.
func resident() string {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "?"
	}
	for line := range strings.Lines(string(b)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(kb)[0])
			return fmt.Sprintf("%d MB", n>>10)
		}
	}
	return "?"
}

// TestFigures prints what a machine costs at each stage, with its share of the
// boot servers, which run in the same process. What costs nothing by design is
// held to that: one that is off or whose system runs has a goroutine, that of
// its controller. RACK_TEST_MACHINES sets how many machines there are.
func TestFigures(t *testing.T) {
	n := 60
	if s := os.Getenv("RACK_TEST_MACHINES"); s != "" {
		n, _ = strconv.Atoi(s)
	} else if testing.Short() {
		t.Skip("short")
	}
	a := newAppliance(t)
	base := measure()
	say := func(stage string) figures {
		f := measure()
		t.Logf("%-22s heap %7d B, stack %6d B, goroutines %5.2f a machine; %s resident", stage,
			(f.heap-base.heap)/n, (f.stack-base.stack)/n, float64(f.goroutines-base.goroutines)/float64(n), resident())
		return f
	}
	r := newRack(t, a, func(o *Options) { o.Machines = n })
	idle := func(stage string) {
		if f := say(stage); f.goroutines > base.goroutines+n+10 {
			t.Errorf("%s: %d goroutines for %d machines", stage, f.goroutines-base.goroutines, n)
		}
	}
	idle("off, never asked")
	each(r, func(m *Machine) { _ = m.Act(bmc.On, ByBMC) })
	beats := map[string]beat{}
	for len(beats) < n {
		b := a.await()
		beats[b.node] = b
	}
	say("agent, just started")
	if os.Getenv("RACK_TEST_MACHINES") != "" { // the connections of the first heartbeat end after a while
		for end := time.Now().Add(patience); runtime.NumGoroutine() > base.goroutines+4*n+10 && time.Now().Before(end); {
			time.Sleep(100 * time.Millisecond)
		}
		say("agent, waiting")
	}
	for _, b := range beats {
		if c, err := a.write(b); err != nil || c.Status != wire.Succeeded {
			t.Fatalf("write image: %+v, %v", c, err)
		}
	}
	say("agent after a write")
	a.set(pxe.Local)
	each(r, func(m *Machine) { _ = m.Act(bmc.Reset, ByBMC) })
	for _, m := range r.Machines() {
		reach(t, m, StageRunning)
	}
	idle("running system")
	each(r, func(m *Machine) { _ = m.Act(bmc.ForceOff, ByBMC) })
	for _, m := range r.Machines() {
		reach(t, m, StageOff)
	}
	idle("off")
}

func each(r *Rack, do func(*Machine)) {
	for _, m := range r.Machines() {
		do(m)
	}
}
