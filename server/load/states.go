package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"bessemer/server/client"
)

// A goal is a state that nodes are to be brought to.
type goal struct {
	phase, verb, state string
	prepare            func(ctx context.Context, node string) error
	body               func(node string) map[string]any
}

func (r *run) manage(ctx context.Context) error {
	return r.move(ctx, goal{phase: "manage", verb: "manage", state: "manageable"}, nil)
}

func (r *run) provide(ctx context.Context) error {
	return r.move(ctx, goal{phase: "provide", verb: "provide", state: "available"}, nil)
}

func (r *run) deploy(ctx context.Context) error {
	names := map[string]string{}
	for name, id := range r.ids {
		names[id] = name
	}
	return r.move(ctx, goal{
		phase: "deploy", verb: "active", state: "active",
		prepare: func(ctx context.Context, node string) error {
			patch := []map[string]any{}
			for key, value := range r.Image {
				patch = append(patch, map[string]any{"op": "add", "path": "/instance_info/" + key, "value": value})
			}
			return r.persist(ctx, func() error { return r.API.Call(ctx, http.MethodPatch, "/v1/nodes/"+node, patch, nil) })
		},
		body: func(node string) map[string]any {
			return map[string]any{"configdrive": map[string]any{"meta_data": map[string]any{"hostname": names[node]}}}
		},
	}, r.Half)
}

// move asks for a verb on all nodes and waits until each is in the state that
// it leads to, or rests in another one. half is called when half of them are.
func (r *run) move(ctx context.Context, g goal, half func(context.Context) ([]Result, error)) error {
	ids := make([]string, 0, len(r.ids))
	for _, id := range r.ids {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	w := &watch{run: r, goal: g, asked: map[string]time.Time{}}
	begun := time.Now()
	asking := make(chan []error, 1)
	go func() {
		_, errs := each(ctx, r.Workers, ids, func(int) {}, func(ctx context.Context, id string) error { return r.ask(ctx, g, id, w.note) })
		asking <- errs
	}()
	more, err := w.until(ctx, len(ids), asking, half)
	res := sum(g.phase, time.Since(begun), w.took, w.errs)
	r.add(res)
	for _, m := range more {
		r.add(m)
	}
	return err
}

// ask sends the requests that bring one node on its way.
func (r *run) ask(ctx context.Context, g goal, id string, note func(string, error)) error {
	var err error
	if g.prepare != nil {
		err = g.prepare(ctx, id)
	}
	if err == nil {
		body := map[string]any{"target": g.verb}
		if g.body != nil {
			for k, v := range g.body(id) {
				body[k] = v
			}
		}
		note(id, nil) // the time runs from here
		err = r.persist(ctx, func() error { return r.API.Call(ctx, http.MethodPut, "/v1/nodes/"+id+"/states/provision", body, nil) })
	}
	if err != nil {
		err = fmt.Errorf("%s node %s: %w", g.verb, id, err)
		note(id, err)
	}
	return err
}

// persist repeats a request while the appliance is away or busy. After one
// whose answer was lost, the node may be on its way already: that it is busy
// then is no error.
func (r *run) persist(ctx context.Context, do func() error) error {
	lost := false
	for {
		err := do()
		refused, isRefusal := errors.AsType[*client.Error](err)
		_, away := errors.AsType[*client.Unreachable](err)
		switch {
		case err == nil || lost && isRefusal && (refused.Status == http.StatusConflict || refused.Status == http.StatusBadRequest):
			return nil
		case !away && !(isRefusal && refused.Status == http.StatusServiceUnavailable):
			return err
		}
		lost = lost || away
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// resting are the states in which nothing goes on that nobody asks for.
func resting(state string) bool {
	return strings.HasSuffix(state, "failed") || state == "error" || slices.Contains([]string{"enroll", "manageable", "available", "active"}, state)
}

// nodeState is what the watch reads of a node.
type nodeState struct {
	UUID      string
	State     string    `json:"provision_state"`
	Target    *string   `json:"target_provision_state"`
	Since     time.Time `json:"provision_updated_at"`
	LastError *string   `json:"last_error"`
}

// states reads the states of all nodes, page by page.
func (r *run) states(ctx context.Context) (map[string]nodeState, error) {
	all := map[string]nodeState{}
	marker := ""
	for {
		q := url.Values{"fields": {"uuid,provision_state,target_provision_state,provision_updated_at,last_error"}, "limit": {"1000"}}
		if marker != "" {
			q.Set("marker", marker)
		}
		var page struct{ Nodes []nodeState }
		if err := r.API.Get(ctx, "/v1/nodes?"+q.Encode(), &page); err != nil {
			return nil, err
		}
		for _, n := range page.Nodes {
			all[n.UUID] = n
			marker = n.UUID
		}
		if len(page.Nodes) < 1000 {
			return all, nil
		}
	}
}
