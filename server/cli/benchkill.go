package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"bessemer/server/client"
	"bessemer/server/load"
	"bessemer/store"
)

// killAndRestart kills the appliance and its machines, starts them again, and
// measures when it answers and when it has taken up what was in flight.
func (b *benched) killAndRestart(ctx context.Context, cl *client.Client) ([]load.Result, error) {
	open, last, err := inFlight(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("before the kill: %w", err)
	}
	b.kill()
	begun := time.Now()
	serving, err := b.start(ctx)
	if err != nil {
		return nil, fmt.Errorf("after the kill: %w", err)
	}
	p, err := takenUp(ctx, cl, open, last)
	up := load.Result{Phase: "restart: taken up", N: p.taken, Errors: len(p.runs), Seconds: max(0, p.last.Sub(begun).Round(time.Millisecond).Seconds())}
	if err != nil {
		up.Error = err.Error()
	}
	return []load.Result{{Phase: "restart: serving", N: 1, Seconds: serving.Round(time.Millisecond).Seconds()}, up}, nil
}

// inFlight lists the runs that go on, and the number of the last message.
func inFlight(ctx context.Context, cl *client.Client) (open map[uint64]bool, last uint64, err error) {
	var status struct {
		Counts struct{ Messages uint64 }
	}
	if err := cl.Get(ctx, "/api/v1/status", &status); err != nil {
		return nil, 0, err
	}
	open, err = openRuns(ctx, cl)
	return open, status.Counts.Messages, err
}

func openRuns(ctx context.Context, cl *client.Client) (map[uint64]bool, error) {
	open := map[uint64]bool{}
	before := ""
	for {
		var page struct{ Runs []store.Run }
		if err := cl.Get(ctx, "/api/v1/runs?outcome=running&limit=500"+before, &page); err != nil {
			return nil, err
		}
		for _, r := range page.Runs {
			open[r.ID] = true
			before = fmt.Sprintf("&before=%d", r.ID)
		}
		if len(page.Runs) < 500 {
			return open, nil
		}
	}
}

// A pickup is what is heard of runs after a restart.
type pickup struct {
	runs  map[uint64]bool
	taken int
	last  time.Time // when the last of them was heard of
}

// Nothing must be heard of any run for longest, or after the first for quiet,
// before those that were not are looked at one by one.
const (
	longest = 15 * time.Second
	quiet   = 2 * time.Second
)

// take notes a message, and says whether it was one of those.
func (p *pickup) take(m store.Message, now time.Time) bool {
	if m.Label != store.LabelRestarted || !p.runs[m.Run] {
		return false
	}
	delete(p.runs, m.Run)
	p.taken++
	p.last = now
	return true
}

// takenUp follows the appliance's messages until each of the runs was heard of
// after the restart. What is left in it were not, and still run.
func takenUp(ctx context.Context, cl *client.Client, open map[uint64]bool, after uint64) (*pickup, error) {
	listen, stop := context.WithCancel(ctx)
	defer stop()
	silence := time.AfterFunc(longest, stop)
	defer silence.Stop()
	p := &pickup{runs: open}
	err := eachMessage(listen, cl, after, func(m store.Message) bool {
		if p.take(m, time.Now()) {
			silence.Reset(quiet)
		}
		return len(p.runs) > 0
	})
	switch {
	case ctx.Err() != nil:
		return p, ctx.Err()
	case len(p.runs) == 0 || listen.Err() == nil:
		return p, err
	}
	still, err := openRuns(ctx, cl) // others had ended between the count and the kill
	for id := range p.runs {
		if err == nil && !still[id] {
			delete(p.runs, id)
		}
	}
	return p, err
}

// eachMessage calls fn with the messages behind a number as they come, until it
// returns false.
func eachMessage(ctx context.Context, cl *client.Client, after uint64, fn func(store.Message) bool) error {
	resp, err := cl.Do(ctx, http.MethodGet, fmt.Sprintf("/api/v1/events?after=%d", after), "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		raw, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var m store.Message
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if !fn(m) {
			return nil
		}
	}
	return lines.Err()
}
