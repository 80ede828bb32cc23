//go:build linux

package main_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bessemer/bmc/sim/flaw"
	"bessemer/bmc/sim/lab"
	simrack "bessemer/bmc/sim/rack"
	"bessemer/store"
)

const (
	isolationMachines = 100
	badShare          = 5 // every fifth controller hangs
	isolationClients  = 20
	// isolationLegs is how many periods each measurement lasts: the p99 needs
	// some hundred operations.
	isolationLegs = 4
	// The machines' power takes 50 ms to change, so that it is waited for each
	// time, as with real ones.
	isolationProfile, isolationPace = "edge-emmc", "0.05"
)

// An isolation is a rack of simulated machines at an appliance of its own,
// some of which are to have controllers that hang.
type isolation struct {
	app       *appliance
	control   *simrack.Client
	good, bad []string // names of the nodes and of their machines
	turns     []int    // how many operations each of the good has had
	asked     atomic.Int64
}

// benchIsolation measures how much longer power operations take while every
// fifth controller takes requests and never answers. Those controllers are
// asked all the while, and there is the same load on the others.
func benchIsolation(t *testing.T, b *bench) {
	s := newIsolation(t)
	s.leg(t) // connections and sessions are opened, which does not count
	n := 0
	p99 := func(took []float64) float64 {
		n += len(took)
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	well, hanging := pair(func() float64 { return p99(s.leg(t)) }, func() float64 { return p99(s.hangingLeg(t)) })
	add := func(subject, unit, how string, figures []float64) {
		b.add(row{Subject: "power operations, " + subject, Unit: unit, Ours: figures, Less: true, How: how})
	}
	add("p99", "ms", fmt.Sprintf("on, off and reboot by %d clients, %d machines, request to end", isolationClients, len(s.good)), well)
	add("p99 beside controllers that hang", "ms", fmt.Sprintf("of the same %d, while %d others hang, which were asked %d times", len(s.good), len(s.bad), s.asked.Load()), hanging)
	var times []float64
	for i := range well {
		times = append(times, hanging[i]/well[i])
	}
	add("p99, hanging to well", "times", fmt.Sprintf("%d operations in %d rounds; aim: at most 1.5", n, len(times)), times)
}

// newIsolation starts an appliance with a rack, and deploys all machines, so
// that they have something to start.
func newIsolation(t *testing.T) *isolation {
	t.Helper()
	l := lab.New(t)
	// Calls to a controller that hangs are given up soon, and then it is asked
	// again: they end soon after a round, and more of them begin in one.
	s := &isolation{app: plainAppliance(t, l, "bmc: {call_timeout: 3s}\nconductor: {automated_clean: false}\nlog: {level: warn}\n")}
	s.app.launch(t, "--sim", fmt.Sprint(isolationMachines), "--sim-profile", isolationProfile, "--sim-pace", isolationPace)
	s.control = simrack.NewClient(s.app.dir + "/sim/rack.sock")
	s.await(t, store.Available)
	s.until(t, "the appliance has the image", func() bool {
		return s.app.client.Get(t.Context(), "/api/v1/images/tinyos", &struct{}{}) == nil
	})
	machines, err := s.control.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Of two neighbours one speaks Redfish, the other IPMI.
	for i, m := range machines {
		if i%(2*badShare) < 2 {
			s.bad = append(s.bad, m.Name)
		} else {
			s.good = append(s.good, m.Name)
		}
	}
	s.turns = make([]int, len(s.good))
	image := []map[string]any{{"op": "add", "path": "/instance_info/image_source", "value": "tinyos"}}
	parallel(t, isolationClients, len(machines), func(i int) error {
		path := "/v1/nodes/" + url.PathEscape(machines[i].Name)
		if err := s.app.client.Call(t.Context(), http.MethodPatch, path, image, nil); err != nil {
			return err
		}
		return s.app.client.Call(t.Context(), http.MethodPut, path+"/states/provision", map[string]any{"target": "active"}, nil)
	})
	s.await(t, store.Active)
	return s
}

// await waits until all nodes are in a provision state.
func (s *isolation) await(t *testing.T, want store.ProvisionState) {
	t.Helper()
	s.until(t, fmt.Sprintf("all nodes are %s", want), func() bool {
		var got struct{ Nodes []struct{ Name string } }
		err := s.app.client.Get(t.Context(), "/v1/nodes?fields=name&limit=1000&provision_state="+url.QueryEscape(string(want)), &got)
		if err != nil {
			t.Fatal(err)
		}
		return len(got.Nodes) == isolationMachines
	})
}

// until waits, for a minute, until something is so.
func (s *isolation) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute it is not so that %s: %s", what, tail(s.app.proc.Log, 4000))
		}
	}
}

// operations are what each machine is asked for, again and again.
var operations = []store.PowerState{store.Rebooting, store.PowerOff, store.PowerOn}

// operate does a power operation on a node, and returns how long it took from
// the request to its end, which it asks for at an interval.
func (s *isolation) operate(ctx context.Context, node string, target store.PowerState, interval time.Duration) (time.Duration, error) {
	begun := time.Now()
	path := "/v1/nodes/" + node + "/states/power"
	if err := s.app.client.Call(ctx, http.MethodPut, path, map[string]any{"target": target}, nil); err != nil {
		return 0, err
	}
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(interval):
		}
		var got struct{ Runs []store.Run }
		if err := s.app.client.Get(ctx, "/api/v1/runs?limit=1&node="+node, &got); err != nil {
			return 0, err
		}
		switch r := got.Runs[0]; r.Outcome {
		case store.Running:
		case store.OK:
			return r.Ended.Sub(begun), nil
		default:
			return 0, fmt.Errorf("%s: %s", r.Workflow, r.Error)
		}
	}
}

// leg has clients do power operations on the machines that are well, and
// returns how long each took in ms.
func (s *isolation) leg(t *testing.T) (took []float64) {
	t.Helper()
	var mu sync.Mutex
	end := time.Now().Add(isolationLegs * *benchPeriod)
	parallel(t, isolationClients, isolationClients, func(client int) error {
		for turn := 0; time.Now().Before(end); turn++ {
			i := (client + turn*isolationClients) % len(s.good) // nobody else's
			d, err := s.operate(t.Context(), s.good[i], operations[s.turns[i]%len(operations)], 50*time.Millisecond)
			if err != nil {
				return fmt.Errorf("%s: %w", s.good[i], err)
			}
			s.turns[i]++
			mu.Lock()
			took = append(took, d.Seconds()*1000)
			mu.Unlock()
		}
		return nil
	})
	return took
}

// hangingLeg is leg while the other controllers hang, each of which is asked
// again as soon as the last request has been given up. Afterwards they are
// well.
func (s *isolation) hangingLeg(t *testing.T) (took []float64) {
	t.Helper()
	for _, name := range s.bad {
		if _, err := s.control.Inject(t.Context(), name, flaw.Fault{Kind: flaw.BMCHang}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, name := range s.bad {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.operate(ctx, name, store.Rebooting, 500*time.Millisecond); err == nil {
					t.Errorf("%s: an operation succeeded though its controller hangs", name)
					return
				}
				s.asked.Add(1)
				time.Sleep(50 * time.Millisecond) // it may not be free again at once
			}
		})
	}
	took = s.leg(t)
	stop()
	wg.Wait()
	for _, name := range s.bad {
		if err := s.control.Heal(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	s.rest(t)
	return took
}

// rest waits until nothing is done on any node any more.
func (s *isolation) rest(t *testing.T) {
	t.Helper()
	s.until(t, "no node is at work", func() bool {
		var got struct{ Runs []store.Run }
		if err := s.app.client.Get(t.Context(), "/api/v1/runs?outcome=running", &got); err != nil {
			t.Fatal(err)
		}
		return len(got.Runs) == 0
	})
}
