package prove

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A request is what a client asks of one node, and the input of the model.
type request struct {
	node  int
	kind  string // get, set, take, manage, provide, maintain, release
	value int    // of set
}

// A reply is what it was told.
type reply struct {
	status int // 0: nothing, or a failure after which all is possible
	seen   view
}

// A view is what the model knows of a node.
type view struct {
	Value       int // 0: none, so that there is nothing to take
	State       string
	Maintenance bool
}

// TestHistory has clients read and change a few nodes at once while the
// appliance is killed now and then, and checks that each node's history is
// linearizable: that there is an order of all requests, each at one moment
// between its sending and its answer, in which a single node that does one
// thing at a time would have answered the same.
func TestHistory(t *testing.T) {
	t.Parallel()
	v := prove(t, "history")
	open := 0
	for range scale(1, 25) {
		open += v.checkHistory()
	}
	v.Note = fmt.Sprintf("requests of %d clients on %d nodes, %d of unknown outcome", clients, nodes, open)
}

const nodes, clients = 4, 5

// checkHistory records a history and checks it. It returns how many requests
// had an outcome that nobody knows.
func (v *verdict) checkHistory() (open int) {
	a := newAppliance(v.t, v.t.TempDir(), order{}, "BESSEMER_CONDUCTOR_AUTOMATED_CLEAN=false")
	defer a.stop()
	for i := range nodes {
		a.must(http.MethodPost, "/v1/nodes", map[string]any{"name": nodeName(i), "driver": "fake-hardware"})
	}
	history := v.record(a, 60, 4)
	deaths, _ := a.died()
	v.count(len(history), deaths, deaths)
	verdict, info := porcupine.CheckOperationsVerbose(nodeModel, history, patience)
	switch verdict {
	case porcupine.Ok:
		if !noticesLies(history) {
			v.t.Error("a history with a lie in it passes as well")
		}
	case porcupine.Unknown:
		v.t.Errorf("the check did not end within %v (seed %d)", patience, v.Seed)
	default:
		path := filepath.Join(v.t.ArtifactDir(), "history.html")
		if err := porcupine.VisualizePath(nodeModel, info, path); err != nil {
			v.t.Error(err)
		}
		v.violated("no order of requests explains the answers; see %s\n%s", path, strings.Join(blamed(info), "\n"))
	}
	return unknown(history)
}

func unknown(history []porcupine.Operation) (n int) {
	for _, op := range history {
		if op.Output.(reply).status == 0 {
			n++
		}
	}
	return n
}

// noticesLies changes one answer in a history, to a value that was taken away
// long before, and says whether the check finds that.
func noticesLies(history []porcupine.Operation) bool {
	old := map[int]int{} // value first seen of a node
	lie := slices.Clone(history)
	slices.SortFunc(lie, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for i, op := range lie {
		in, out := op.Input.(request), op.Output.(reply)
		if in.kind != "get" || out.status != http.StatusOK || out.seen.Value == 0 {
			continue
		}
		if first := old[in.node]; first != 0 && first != out.seen.Value && i > len(lie)/2 {
			out.seen.Value = first
			lie[i].Output = out
			return porcupine.CheckOperationsTimeout(nodeModel, lie, patience) == porcupine.Illegal
		}
		if old[in.node] == 0 {
			old[in.node] = out.seen.Value
		}
	}
	return false
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// record lets clients work, and kills the appliance, and returns what they
// asked and were told.
func (v *verdict) record(a *appliance, requests, kills int) (history []porcupine.Operation) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	begun := time.Now()
	since := func() int64 { return time.Since(begun).Nanoseconds() }
	done := make(chan struct{})
	for client := range clients {
		wg.Go(func() {
			for i := range requests {
				in := v.nextRequest(client*requests + i + 1)
				op := porcupine.Operation{ClientId: client, Input: in, Call: since()}
				out := a.perform(v.t.Context(), in)
				op.Output, op.Return = out, since()
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
				if out.status == 0 {
					a.await()
				}
			}
		})
	}
	go func() { wg.Wait(); close(done) }()
	v.killNowAndThen(a, kills, done)
	<-done
	for i, op := range history {
		if op.Output.(reply).status == 0 { // it may take effect at any later time
			history[i].Return = since()
		}
	}
	return history
}

// killNowAndThen kills the appliance so many times, at moments that the seed
// fixes, but not after done.
func (v *verdict) killNowAndThen(a *appliance, kills int, done <-chan struct{}) {
	for range kills {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(20+v.roll(80)) * time.Millisecond):
			a.kill()
		}
	}
}

// nextRequest draws a request. Values are never used twice.
func (v *verdict) nextRequest(value int) request {
	r := request{node: v.roll(nodes), value: value}
	switch n := v.roll(100); {
	case n < 40:
		r.kind = "get"
	case n < 60:
		r.kind = "set"
	case n < 75:
		r.kind = "take"
	case n < 80:
		r.kind = "maintain"
	case n < 85:
		r.kind = "release"
	case n < 93:
		r.kind = "manage"
	default:
		r.kind = "provide"
	}
	return r
}

// perform sends a request and sums its answer up.
func (a *appliance) perform(ctx context.Context, in request) reply {
	path := "/v1/nodes/" + nodeName(in.node)
	var r answer
	switch in.kind {
	case "get":
		r = a.once(ctx, http.MethodGet, path, nil)
	case "set":
		r = a.once(ctx, http.MethodPatch, path, set("/extra/value", in.value))
	case "take":
		r = a.once(ctx, http.MethodPatch, path, patch{{"op": "remove", "path": "/extra/value"}})
	case "maintain":
		r = a.once(ctx, http.MethodPut, path+"/maintenance", map[string]any{"reason": "prove"})
	case "release":
		r = a.once(ctx, http.MethodDelete, path+"/maintenance", nil)
	case "manage", "provide":
		r = a.once(ctx, http.MethodPut, path+"/states/provision", map[string]any{"target": in.kind})
	}
	if !r.known() {
		return reply{}
	}
	out := reply{status: r.status}
	if in.kind == "get" && r.ok() {
		var n node
		if err := json.Unmarshal(r.body, &n); err != nil {
			return reply{status: -1} // which nothing explains
		}
		value, _ := n.Extra["value"].(float64)
		out.seen = view{int(value), n.State, n.Maintenance}
	}
	return out
}

// nodeModel is a node that does one thing at a time.
var nodeModel = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byNode := map[int][]porcupine.Operation{}
		for _, op := range history {
			n := op.Input.(request).node
			byNode[n] = append(byNode[n], op)
		}
		var parts [][]porcupine.Operation
		for _, p := range byNode {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() []any { return []any{view{State: "enroll"}} },
	Step: func(state, input, output any) (next []any) {
		for _, was := range state.(view).become() {
			next = append(next, was.answer(input.(request), output.(reply))...)
		}
		return next
	},
	Equal:             func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}).ToModel()

// become returns what a node may have become by itself: a run may have ended.
func (s view) become() []view {
	ended := s
	switch s.State {
	case "verifying":
		ended.State = "manageable"
	case "cleaning":
		ended.State = "available"
	default:
		return []view{s}
	}
	return []view{s, ended}
}

func (s view) busy() bool { return s.State == "verifying" || s.State == "cleaning" }

// answer returns the states that a request leaves when it is answered like
// this; none when it cannot be.
func (s view) answer(in request, out reply) []any {
	after, allowed := s.do(in)
	switch {
	case out.status == 0 && allowed:
		return []any{s, after} // it was done, or it was not
	case out.status == 0:
		return []any{s}
	case out.status/100 == 2 && in.kind == "get":
		return only(s == out.seen, s)
	case out.status/100 == 2:
		return only(allowed, after)
	case out.status/100 == 4:
		return only(!allowed, s)
	}
	return nil
}

func only(is bool, s view) []any {
	if !is {
		return nil
	}
	return []any{s}
}

// do returns what a request makes of a node, and whether it is allowed.
func (s view) do(in request) (after view, allowed bool) {
	after = s
	switch in.kind {
	case "get":
		return s, true
	case "set":
		after.Value = in.value
		return after, !s.busy()
	case "take":
		after.Value = 0
		return after, !s.busy() && s.Value != 0
	case "maintain":
		after.Maintenance = true
		return after, true
	case "release":
		after.Maintenance = false
		return after, true
	case "manage":
		switch s.State {
		case "enroll":
			after.State = "verifying"
		case "available":
			after.State = "manageable"
		default:
			return s, false
		}
		return after, true
	case "provide":
		after.State = "cleaning"
		return after, s.State == "manageable" && !s.Maintenance
	}
	return s, false
}

// blamed names the requests that no order explains: those behind the longest
// order that there is, of the node whose history is at fault.
func blamed(info porcupine.LinearizationInfo) (lines []string) {
	for i, orders := range info.PartialLinearizationsOperations() {
		best := 0
		for _, o := range orders {
			best = max(best, len(o))
		}
		lines = append(lines, fmt.Sprintf("part %d: the longest order has %d requests", i, best))
		for _, o := range orders {
			if len(o) == best {
				for _, op := range o[max(0, len(o)-6):] {
					lines = append(lines, fmt.Sprintf("  %d-%d %+v -> %+v", op.Call, op.Return, op.Input, op.Output))
				}
				break
			}
		}
	}
	return lines
}
