package api

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bessemer/server/auth"
	"bessemer/store"
)

func TestEventsResumeWithoutGaps(t *testing.T) {
	g := newRig(t, auth.None)
	id, other := g.node("n1"), g.node("n2")
	say := func(node string, i int) {
		g.db.Record(store.WithScope(t.Context(), store.Scope{Node: node}), store.Message{From: store.NodeP, To: store.DHCP, Kind: store.Cast, Label: fmt.Sprint("m", i)})
	}
	for i := range 600 { // more than a batch, half of it another node's
		say([]string{id, other}[i%2], i)
	}
	seen := idsOf(g.events(t, "?node=n1&after=0", 300))
	if len(seen) != 300 || seen[0] != 1 || seen[299] != 599 {
		t.Fatalf("%d events, %v...", len(seen), seen[:min(3, len(seen))])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", g.url+"/api/v1/events?node="+id, nil)
	req.Header.Set("Last-Event-ID", "597")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("headers %v", resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	next := func() string {
		for lines.Scan() {
			if s, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				return s
			}
		}
		t.Fatalf("stream ended: %v", lines.Err())
		return ""
	}
	if got := next(); got != "599" {
		t.Errorf("resumed at %s", got)
	}
	say(other, 0)
	say(id, 0)
	if got := next(); got != "602" {
		t.Errorf("live event %s", got)
	}
	for path, code := range map[string]int{"?after=x": 400, "?node=nosuch": 404, "?color=red": 400} {
		if a := g.ask("", "GET", "/api/v1/events"+path, ""); a.code != code {
			t.Errorf("%s: got %d", path, a.code)
		}
	}
}

func idsOf(stream string) []int {
	var ids []int
	for line := range strings.Lines(stream) {
		var n int
		if _, err := fmt.Sscanf(line, "id: %d", &n); err == nil {
			ids = append(ids, n)
		}
	}
	return ids
}

func TestEventStreamsAreCountedAndEnd(t *testing.T) {
	g := newRig(t, auth.None)
	g.api.followers.Store(maxFollowers)
	if a := g.ask("", "GET", "/api/v1/events", ""); a.code != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("one too many: got %d", a.code)
	}
	g.api.followers.Store(0)
	g.db.Record(t.Context(), store.Message{From: store.NodeP, To: store.DHCP, Kind: store.Cast, Label: "x"})
	g.events(t, "?after=0", 1) // closes the connection when it has seen one
	deadline := time.Now().Add(10 * time.Second)
	for g.api.followers.Load() != 0 {
		if time.Now().After(deadline) {
			t.Fatal("the stream did not end with its client")
		}
		g.db.Record(t.Context(), store.Message{From: store.NodeP, To: store.DHCP, Kind: store.Cast, Label: "x"})
		time.Sleep(5 * time.Millisecond)
	}
}

// A client that does not read is disconnected, and holds up nobody.
func TestSlowFollowersAreDisconnected(t *testing.T) {
	g := newRig(t, auth.None)
	g.api.eventPatience = 50 * time.Millisecond
	req, _ := http.NewRequestWithContext(t.Context(), "GET", g.url+"/api/v1/events?after=0", nil)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	deadline := time.Now().Add(30 * time.Second)
	label := strings.Repeat("x", 4000)
	for g.api.followers.Load() != 0 {
		if time.Now().After(deadline) {
			t.Fatal("the stream goes on without a reader")
		}
		for range 100 {
			g.db.Record(t.Context(), store.Message{From: store.NodeP, To: store.DHCP, Kind: store.Cast, Label: label})
		}
		time.Sleep(time.Millisecond)
	}
}

// A client from before the store was restored has seen higher numbers than
// there are; it gets what comes now.
func TestEventsAfterARestore(t *testing.T) {
	for _, filter := range []string{"", "&node=n1", "&trace=" + strings.Repeat("ab", 16)} {
		g := newRig(t, auth.None)
		scope := store.Scope{Node: g.node("n1"), Trace: strings.Repeat("ab", 16)}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		req, _ := http.NewRequestWithContext(ctx, "GET", g.url+"/api/v1/events?after=1000000"+filter, nil)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		lines.Scan() // connected
		g.db.Record(store.WithScope(t.Context(), scope), store.Message{From: store.NodeP, To: store.DHCP, Kind: store.Cast, Label: "now"})
		found := false
		for lines.Scan() && !found {
			found = strings.Contains(lines.Text(), `"label":"now"`)
		}
		if !found {
			t.Errorf("filter %q: no event: %v", filter, lines.Err())
		}
		cancel()
		resp.Body.Close()
	}
}
