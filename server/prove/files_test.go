package prove

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestOpenFiles takes all file descriptors away: the appliance must say so
// where it has a connection left to say it on, and go on afterwards.
func TestOpenFiles(t *testing.T) {
	v := prove(t, "open-files")
	const limit = 64
	a := newAppliance(t, t.TempDir(), order{OpenFiles: limit})
	l := newLedger()
	stored, _ := l.fill(v, a, 20, 100, 1)
	for range scale(2, 10) {
		v.count(stored+v.exhaust(a, l, limit), limit, limit)
		l.check(v, a)
	}
	if after, refused := l.fill(v, a, 20, 200, 1); after == 0 || refused > 0 {
		v.violated("files can be opened again, and %d writes were taken, %d refused", after, refused)
	}
	a.again(order{})
	l.check(v, a)
}

// exhaust holds connections until the appliance can open nothing more, and
// looks at what it says to a client that was there before.
func (v *verdict) exhaust(a *appliance, l *ledger, limit int) (requests int) {
	v.t.Helper()
	// Two connections that are there before: a refused upload ends its own.
	said, send := v.connected(a), v.connected(a)
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for range limit {
		c, err := net.Dial("tcp", strings.TrimPrefix(a.api, "http://"))
		if err != nil {
			v.t.Fatal(err)
		}
		held = append(held, c)
	}
	v.awaitRefusal(send)
	for i := range 20 { // what needs no new file works
		requests++
		if r := said(http.MethodPatch, "/v1/nodes/c0-n0-100", set("/extra", map[string]any{"value": strings.Repeat("y", i)})); !r.ok() {
			v.violated("a write that opens no file: %s", r)
		} else {
			l.nodes["c0-n0-100"] = strings.Repeat("y", i)
		}
	}
	return requests
}

// connected returns what asks on a connection of its own, which is there.
func (v *verdict) connected(a *appliance) func(method, path string, in any) answer {
	v.t.Helper()
	kept := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}, Timeout: patience}
	v.t.Cleanup(kept.CloseIdleConnections)
	said := func(method, path string, in any) answer { return ask(v.t.Context(), kept, method, a.api+path, in) }
	if r := said(http.MethodGet, "/v1", nil); !r.ok() {
		v.violated("before: %s", r)
	}
	return said
}

// awaitRefusal uploads images until one is refused for want of files.
func (v *verdict) awaitRefusal(said func(method, path string, in any) answer) {
	v.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		r := said(http.MethodPut, "/api/v1/images/i", io.LimitReader(zeros{}, 1000))
		switch {
		case clear(r, []int{http.StatusServiceUnavailable}):
			return
		case r.ok():
			said(http.MethodDelete, "/api/v1/images/i", nil)
		default:
			v.violated("an upload without files left: %s", r)
			return
		}
	}
	v.violated("the appliance opens files beyond its limit")
}
