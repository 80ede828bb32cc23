package load

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// enroll creates nodes and ports.
func (r *run) enroll(ctx context.Context) error {
	var mu sync.Mutex
	begun := time.Now()
	took, errs := each(ctx, r.Workers, r.Nodes, r.progress("enroll", len(r.Nodes)), func(ctx context.Context, n Node) error {
		id, err := r.create(ctx, n)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			r.ids[n.Name] = id
		}
		return err
	})
	r.add(sum("enroll", time.Since(begun), took, errs))
	if len(r.ids) == 0 {
		return fmt.Errorf("enroll %d nodes: none could be; the first error: %w", len(r.Nodes), firstOf(errs, ctx.Err()))
	}
	return ctx.Err()
}

func firstOf(errs []error, other error) error {
	if len(errs) > 0 {
		return errs[0]
	}
	return other
}

func (r *run) progress(phase string, total int) func(int) {
	return func(n int) { r.Progress(phase, n, total) }
}

func (r *run) create(ctx context.Context, n Node) (uuid string, err error) {
	var made struct{ UUID string }
	body := map[string]any{"name": n.Name, "driver": n.Driver, "driver_info": n.DriverInfo, "properties": n.Properties}
	if n.Deploy != "" {
		body["deploy_interface"] = n.Deploy
	}
	if !r.Clean || n.Deploy != "" { // there is no machine that could be cleaned
		body["automated_clean"] = false
	}
	if err := r.API.Call(ctx, http.MethodPost, "/v1/nodes", body, &made); err != nil {
		return "", fmt.Errorf("create node %s: %w", n.Name, err)
	}
	for _, mac := range n.MACs {
		port := map[string]any{"node_uuid": made.UUID, "address": mac}
		if err := r.API.Call(ctx, http.MethodPost, "/v1/ports", port, nil); err != nil {
			return "", fmt.Errorf("create port %s of node %s: %w", mac, n.Name, err)
		}
	}
	return made.UUID, nil
}
