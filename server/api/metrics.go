package api

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"bessemer/store"
)

// metrics counts requests by method, route and status. Routes are few and
// fixed, so the numbers cannot grow with what clients ask for.
type metrics struct {
	mu    sync.Mutex
	count map[requestKey]uint64
	times map[string]*histogram // by method and route
}

type requestKey struct{ method, route, code string }

// buckets are upper bounds of request times, in seconds.
var buckets = [...]float64{0.005, 0.025, 0.1, 0.5, 2.5, 10, 60}

type histogram struct {
	method, route string
	counts        [len(buckets)]uint64
	total         uint64
	sum           float64
}

type seenKey struct{}

// seen is filled in when the router has found a request's route.
type seen struct{ route string }

func (m *metrics) watch(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), seenKey{}, &seen{"none"}))
}

func (m *metrics) named(r *http.Request, rt *route) {
	if s, ok := r.Context().Value(seenKey{}).(*seen); ok {
		s.route = rt.path
	}
}

func (m *metrics) done(r *http.Request, w *statusWriter, begun time.Time) {
	s, _ := r.Context().Value(seenKey{}).(*seen)
	method := r.Method
	if !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, method) {
		method = "other"
	}
	took := time.Since(begun).Seconds()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count == nil {
		m.count, m.times = map[requestKey]uint64{}, map[string]*histogram{}
	}
	m.count[requestKey{method, s.route, strconv.Itoa(w.status)}]++
	h := m.times[method+s.route]
	if h == nil {
		h = &histogram{method: method, route: s.route}
		m.times[method+s.route] = h
	}
	h.total++
	h.sum += took
	for i, b := range buckets {
		if took <= b {
			h.counts[i]++
		}
	}
}

func (m *metrics) write(b *bytes.Buffer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	head(b, "bessemer_http_requests_total", "counter", "HTTP requests answered.")
	for _, k := range slices.SortedFunc(maps.Keys(m.count), func(a, b requestKey) int {
		return cmp.Or(cmp.Compare(a.route, b.route), cmp.Compare(a.method, b.method), cmp.Compare(a.code, b.code))
	}) {
		fmt.Fprintf(b, "bessemer_http_requests_total{method=%q,route=%q,code=%q} %d\n", k.method, k.route, k.code, m.count[k])
	}
	head(b, "bessemer_http_request_seconds", "histogram", "How long HTTP requests took.")
	for _, k := range slices.Sorted(maps.Keys(m.times)) {
		m.times[k].write(b)
	}
}

func (h *histogram) write(b *bytes.Buffer) {
	const name = "bessemer_http_request_seconds"
	labels := fmt.Sprintf("method=%q,route=%q", h.method, h.route)
	for i, le := range buckets {
		fmt.Fprintf(b, "%s_bucket{%s,le=\"%g\"} %d\n", name, labels, le, h.counts[i])
	}
	fmt.Fprintf(b, "%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %g\n%s_count{%s} %d\n", name, labels, h.total, name, labels, h.sum, name, labels, h.total)
}

func head(b *bytes.Buffer, name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func gauge(b *bytes.Buffer, name, help string, v any) {
	head(b, name, "gauge", help)
	fmt.Fprintf(b, "%s %v\n", name, v)
}

// showMetrics answers in Prometheus' text format.
func showMetrics(c *call) error {
	n, err := c.api.counts()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	c.api.metrics.write(&b)
	head(&b, "bessemer_nodes", "gauge", "Nodes by provision state.")
	for _, s := range provisionStates {
		fmt.Fprintf(&b, "bessemer_nodes{provision_state=%q} %d\n", s, n.byState[s])
	}
	gauge(&b, "bessemer_nodes_in_maintenance", "Nodes in maintenance.", n.maintenance)
	gauge(&b, "bessemer_ports", "Ports.", n.ports)
	gauge(&b, "bessemer_runs_open", "Runs that go on.", n.openRuns)
	head(&b, "bessemer_runs_total", "counter", "Runs that have ended since the start, by workflow and outcome.")
	for _, k := range slices.Sorted(maps.Keys(n.ended)) {
		fmt.Fprintf(&b, "bessemer_runs_total{%s} %d\n", k, n.ended[k])
	}
	waiting, lost, _ := c.api.db.RecorderState()
	head(&b, "bessemer_messages_total", "counter", "Messages recorded since the store was made.")
	fmt.Fprintf(&b, "bessemer_messages_total %d\n", c.api.db.LastMessage())
	gauge(&b, "bessemer_messages_waiting", "Messages not yet on the disk.", waiting)
	head(&b, "bessemer_messages_lost_total", "counter", "Messages that could not be kept.")
	fmt.Fprintf(&b, "bessemer_messages_lost_total %d\n", lost)
	gauge(&b, "bessemer_event_streams", "Open event streams.", c.api.followers.Load())
	gauge(&b, "bessemer_goroutines", "Goroutines.", runtime.NumGoroutine())
	gauge(&b, "bessemer_start_time_seconds", "When the appliance was started, in Unix time.", c.api.started.Unix())
	c.w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = c.w.Write(b.Bytes())
	return nil
}

// counts is how many there are of what.
type counts struct {
	nodes, maintenance, ports, openRuns, images int
	byState                                     map[store.ProvisionState]int
	ended                                       map[string]uint64 // runs, by Prometheus labels
}

func (a *API) counts() (counts, error) {
	n := counts{byState: map[store.ProvisionState]int{}}
	err := a.db.View(func(tx *store.Tx) (err error) {
		for v, err := range store.Nodes.All(tx) {
			if err != nil {
				return err
			}
			n.nodes++
			n.byState[v.ProvisionState]++
			if v.Maintenance {
				n.maintenance++
			}
		}
		n.openRuns, n.ports, n.images = store.Runs.CountWhere(tx, "open", "yes"), store.Ports.Count(tx), store.Images.Count(tx)
		n.ended, err = a.runs.count(tx)
		return err
	})
	return n, err
}
