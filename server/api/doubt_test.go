package api

import (
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"bessemer/store"
)

// TestAChangeInDoubtIsFollowed: a disk that takes a change and reports that it
// failed leaves nobody with what was before, neither the conductor nor lists.
func TestAChangeInDoubtIsFollowed(t *testing.T) {
	var broken atomic.Bool
	db, err := store.Open(t.TempDir(), store.Options{NoSync: true, Fault: func(_ uint64, when store.Moment) error {
		if broken.Load() && when == store.AfterWrite {
			return syscall.EIO
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	g := newRigOn(t, db, "none")
	const node, port = "11111111-2222-4333-8444-000000000001", "11111111-2222-4333-8444-000000000002"
	list := func(path string) string { return g.must(200, "1.82", "GET", path, "").body }
	for _, tt := range []struct {
		name, method, path, body string
		list, has                string // what the list at a path has afterwards
		hasNot                   string
	}{
		{"create a node", "POST", "/v1/nodes", `{"uuid":"` + node + `","driver":"fake-hardware"}`, "/v1/nodes", node, ""},
		{"patch a node", "PATCH", "/v1/nodes/" + node, `[{"op":"add","path":"/name","value":"renamed"}]`, "/v1/nodes", "renamed", ""},
		{"maintenance", "PUT", "/v1/nodes/" + node + "/maintenance", `{"reason":"x"}`, "/v1/nodes?maintenance=true", node, ""},
		{"create a port", "POST", "/v1/ports", `{"uuid":"` + port + `","address":"aa:bb:cc:00:00:01","node_uuid":"` + node + `"}`, "/v1/ports", port, ""},
		{"patch a port", "PATCH", "/v1/ports/" + port, `[{"op":"replace","path":"/address","value":"aa:bb:cc:00:00:02"}]`, "/v1/ports", "aa:bb:cc:00:00:02", "aa:bb:cc:00:00:01"},
		{"delete a port", "DELETE", "/v1/ports/" + port, "", "/v1/ports", "ports", port},
		{"delete a node", "DELETE", "/v1/nodes/" + node, "", "/v1/nodes", "nodes", node},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list(tt.list) // before
			g.fake.mu.Lock()
			g.fake.changed = nil
			g.fake.mu.Unlock()
			broken.Store(true)
			a := g.ask("1.82", tt.method, tt.path, tt.body)
			broken.Store(false)
			if a.code != 503 {
				t.Fatalf("answered %d %s, want 503", a.code, a.body)
			}
			g.fake.mu.Lock()
			told := slices.Contains(g.fake.changed, node)
			g.fake.mu.Unlock()
			if !told {
				t.Error("the conductor was not told")
			}
			got := list(tt.list)
			if !strings.Contains(got, tt.has) || tt.hasNot != "" && strings.Contains(got, tt.hasNot) {
				t.Errorf("the list is %s, want %q in it and not %q", got, tt.has, tt.hasNot)
			}
		})
	}
}
