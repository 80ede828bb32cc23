// Package load drives an appliance as a rack's worth of clients would:
// it enrolls machines, has them managed, provided and deployed, sends
// heartbeats, lists all the while, and says how long everything took.
package load

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"bessemer/server/client"
)

// A Node is a machine to be enrolled.
type Node struct {
	Name       string
	Driver     string
	DriverInfo map[string]any
	Properties map[string]any
	MACs       []string
	// Deploy is the deploy interface; "": the driver's default.
	Deploy string
}

// Options of [Run].
type Options struct {
	API          *client.Client
	Provisioning string         // base URL of the provisioning listener; "": no heartbeats are sent
	Nodes        []Node         // all with names
	Image        map[string]any // instance_info of the deployments
	Workers      int            // requests at once; 0: 32
	Clean        bool           // clean the disks before nodes become available, as by default
	Heartbeats   int            // how many agents send heartbeats; 0: none
	HeartbeatFor time.Duration
	// Memory reads the resident memory of the appliance and of the simulated
	// machines, and the peak of both together, in bytes; nil: unknown.
	Memory func() (appliance, rack, peak int64)
	// Half is called once when half of the nodes are ACTIVE, if it is set: to
	// kill the appliance and start it again. Its results are added.
	Half func(context.Context) ([]Result, error)
	// Progress is told how far a phase is; may be nil.
	Progress func(phase string, done, total int)
	// Report is given each result as soon as it is known; may be nil.
	Report func(Result)
}

// A Result is what one phase has come to. Latencies are of single requests, or
// in the phases that change states from a node's request to its state.
type Result struct {
	Phase   string  `json:"phase"`
	N       int     `json:"n"`
	Errors  int     `json:"errors"`
	Error   string  `json:"error,omitempty"` // the first
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"per_second"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
	Memory  float64 `json:"rss_mb,omitempty"`
	Rack    float64 `json:"rack_rss_mb,omitempty"`
	Peak    float64 `json:"peak_rss_mb,omitempty"` // of both
}

// A run is the load as it goes on.
type run struct {
	Options
	ids     map[string]string // UUID by name
	results []Result
}

// Run puts the load on the appliance and returns what each phase has come to.
// Nodes that fail are counted; the error is of what keeps the whole from going
// on.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if o.Workers <= 0 {
		o.Workers = 32
	}
	if o.Memory == nil {
		o.Memory = func() (int64, int64, int64) { return 0, 0, 0 }
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	if o.Report == nil {
		o.Report = func(Result) {}
	}
	r := &run{Options: o, ids: map[string]string{}}
	list := newLister(r.API)
	listing, stop := context.WithCancel(ctx)
	defer stop()
	list.begin(listing)
	err := r.phases(ctx)
	stop()
	list.wait()
	for _, res := range list.results() {
		r.add(res)
	}
	return r.results, err
}

func (r *run) phases(ctx context.Context) error {
	for _, phase := range []func(context.Context) error{r.enroll, r.manage, r.provide, r.deploy, r.heartbeat} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// add notes a result, with the memory of its end.
func (r *run) add(res Result) {
	appliance, rack, peak := r.Memory()
	res.Memory, res.Rack, res.Peak = mega(appliance), mega(rack), mega(peak)
	r.results = append(r.results, res)
	r.Report(res)
}

func mega(n int64) float64 { return float64(n/1e5) / 10 }

// sum makes a result of latencies.
func sum(phase string, took time.Duration, latencies []time.Duration, errs []error) Result {
	slices.Sort(latencies)
	res := Result{Phase: phase, N: len(latencies) + len(errs), Errors: len(errs), Seconds: round(took.Seconds())}
	if len(errs) > 0 {
		res.Error = fmt.Sprint(errs[0])
	}
	if took > 0 {
		res.Rate = round(float64(len(latencies)) / took.Seconds())
	}
	if len(latencies) > 0 {
		res.P50, res.P99, res.Max = ms(latencies[len(latencies)/2]), ms(latencies[len(latencies)*99/100]), ms(latencies[len(latencies)-1])
	}
	return res
}

func round(f float64) float64 { return math.Round(f*1000) / 1000 }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
