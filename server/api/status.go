package api

import (
	"net/http"
	"runtime"
	"time"
)

// showStatus says what the appliance is and does.
func showStatus(c *call) error {
	n, err := c.api.counts()
	if err != nil {
		return err
	}
	waiting, lost, werr := c.api.db.RecorderState()
	missing := orNone(c.api.notReady())
	if werr != nil {
		missing = append(missing, "messages cannot be written: "+werr.Error())
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	c.json(http.StatusOK, map[string]any{
		"version":   c.api.Version,
		"hostname":  c.api.conductor.Hostname(),
		"started":   c.api.started.UTC(),
		"uptime":    time.Since(c.api.started).Seconds(),
		"auth":      c.api.Auth.Mode(),
		"user":      c.id.User,
		"role":      c.id.Role,
		"listeners": append([]Listener{}, c.api.Listeners...),
		"drivers":   c.api.self().drivers,
		"not_ready": missing,
		"counts": map[string]any{
			"nodes": n.nodes, "nodes_by_state": n.byState, "nodes_in_maintenance": n.maintenance,
			"ports": n.ports, "runs_open": n.openRuns, "images": n.images,
			"messages": c.api.db.LastMessage(), "messages_waiting": waiting, "messages_lost": lost,
			"event_streams": c.api.followers.Load(),
		},
		"memory": map[string]any{"heap": mem.HeapAlloc, "system": mem.Sys},
	})
	return nil
}
