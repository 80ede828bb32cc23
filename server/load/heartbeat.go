package load

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"bessemer/server/client"
)

// An agent is a stand-in for the one in a ramdisk: it looks its node up, and
// sends heartbeats, but never ends a command.
type agent struct {
	node, mac, token string
}

// heartbeat deploys a few nodes without a machine, and sends heartbeats in
// their agents' name, as fast as they are taken.
func (r *run) heartbeat(ctx context.Context) error {
	if r.Heartbeats == 0 || r.Provisioning == "" {
		return nil
	}
	boot, err := client.New(r.Provisioning, nil)
	if err != nil {
		return err
	}
	ear, err := listen()
	if err != nil {
		return fmt.Errorf("heartbeats: %w", err)
	}
	defer ear.close()
	agents, err := r.startAgents(ctx, boot)
	defer r.endAgents(context.WithoutCancel(ctx), agents)
	if err != nil {
		return fmt.Errorf("heartbeats: %w", err)
	}
	end := time.Now().Add(r.HeartbeatFor)
	begun := time.Now()
	var turns []agent
	for len(turns) < r.Workers {
		turns = append(turns, agents...)
	}
	perWorker := make([][]time.Duration, len(turns))
	var index []int
	for i := range turns {
		index = append(index, i)
	}
	_, errs := each(ctx, r.Workers, index, func(int) {}, func(ctx context.Context, i int) error {
		a := turns[i]
		for n := 0; time.Now().Before(end) && ctx.Err() == nil; n++ {
			sent := time.Now()
			body := map[string]any{"callback_url": ear.url, "agent_token": a.token, "agent_version": "load", "agent_verify_ca": ear.ca}
			if err := boot.Call(ctx, http.MethodPost, "/v1/heartbeat/"+a.node, body, nil); err != nil {
				return fmt.Errorf("heartbeat of node %s: %w", a.node, err)
			}
			perWorker[i] = append(perWorker[i], time.Since(sent))
		}
		return nil
	})
	var took []time.Duration
	for _, p := range perWorker {
		took = append(took, p...)
	}
	r.add(sum("heartbeat", time.Since(begun), took, errs))
	return ctx.Err()
}

// startAgents brings nodes without a machine to the point where their agent is
// waited for, and looks them up.
func (r *run) startAgents(ctx context.Context, boot *client.Client) ([]agent, error) {
	var agents []agent
	for i := range r.Heartbeats {
		a := agent{mac: fmt.Sprintf("02:be:a7:00:%02x:%02x", i>>8, i&0xff)}
		id, err := r.create(ctx, Node{Name: fmt.Sprintf("load-heart-%d", i+1), Driver: "fake-hardware", Deploy: "direct", MACs: []string{a.mac}})
		if err != nil {
			return agents, err
		}
		a.node = id
		agents = append(agents, a)
	}
	_, errs := each(ctx, r.Workers, agents, func(int) {}, func(ctx context.Context, a agent) error { return r.bringUp(ctx, a.node) })
	if len(errs) > 0 {
		return agents, errs[0]
	}
	for i := range agents {
		if err := agents[i].lookup(ctx, boot); err != nil {
			return agents, err
		}
	}
	return agents, nil
}

// bringUp deploys one node as far as it goes without a machine.
func (r *run) bringUp(ctx context.Context, id string) error {
	for _, s := range []struct{ verb, state string }{{"manage", "manageable"}, {"provide", "available"}} {
		if err := r.provision(ctx, id, s.verb); err != nil {
			return err
		}
		n, err := r.API.WaitState(ctx, id, func(n map[string]any) bool { return n["target_provision_state"] == nil }, nil)
		if err != nil || n["provision_state"] != s.state {
			return fmt.Errorf("%s node %s: it is %v, %v: %w", s.verb, id, n["provision_state"], n["last_error"], err)
		}
	}
	patch := []map[string]any{}
	for key, value := range r.Image {
		patch = append(patch, map[string]any{"op": "add", "path": "/instance_info/" + key, "value": value})
	}
	if err := r.API.Call(ctx, http.MethodPatch, "/v1/nodes/"+id, patch, nil); err != nil {
		return err
	}
	return r.provision(ctx, id, "active")
}

func (r *run) provision(ctx context.Context, id, verb string) error {
	return r.API.Call(ctx, http.MethodPut, "/v1/nodes/"+id+"/states/provision", map[string]any{"target": verb}, nil)
}

// lookup asks which node this is until the appliance expects it.
func (a *agent) lookup(ctx context.Context, boot *client.Client) error {
	var err error
	for range 100 {
		var got struct {
			Config struct {
				Token string `json:"agent_token"`
			}
		}
		if err = boot.Get(ctx, "/v1/lookup?addresses="+url.QueryEscape(a.mac), &got); err == nil {
			a.token = got.Config.Token
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("look up node %s: %w", a.node, err)
}

// endAgents removes the nodes again.
func (r *run) endAgents(ctx context.Context, agents []agent) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	each(ctx, r.Workers, agents, func(int) {}, func(ctx context.Context, a agent) error {
		if err := r.API.Call(ctx, http.MethodPut, "/v1/nodes/"+a.node+"/maintenance", map[string]any{"reason": "end of a load test"}, nil); err != nil {
			return err
		}
		return r.API.Call(ctx, http.MethodDelete, "/v1/nodes/"+a.node, nil, nil)
	})
}
