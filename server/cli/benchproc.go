package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"bessemer/server/client"
	"bessemer/server/load"
	"bessemer/store"
)

// A benched appliance is one under load, in a process of its own so that its
// memory is its own, and so that it can be killed.
type benched struct {
	c                      *cli.Context
	dir, url, provisioning string
	machines               int
	cmd                    *exec.Cmd
	ended                  chan struct{}
}

const benchLog = "appliance.log"

// start starts the appliance and waits for its first answer.
func (b *benched) start(ctx context.Context) (took time.Duration, err error) {
	if b.url == "" {
		ports, err := freePorts(2)
		if err != nil {
			return 0, err
		}
		b.url, b.provisioning = "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	log, err := os.OpenFile(filepath.Join(b.dir, benchLog), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	begun := time.Now()
	b.cmd = exec.Command(self, b.args()...)
	b.cmd.Stdout, b.cmd.Stderr = log, log
	b.cmd.Env = append(os.Environ(), "BESSEMER_CONFIG=")
	if err := b.cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the appliance: %w", err)
	}
	b.ended = make(chan struct{})
	go func() {
		defer close(b.ended)
		_ = b.cmd.Wait() // how it ended is in its log
	}()
	return b.awaitAnswer(ctx, begun)
}

func (b *benched) args() []string {
	return []string{
		"serve", "--data-dir", b.dir, "--api-listen", strings.TrimPrefix(b.url, "http://"), "--api-auth", "none",
		"--provisioning-port", b.provisioning[strings.LastIndex(b.provisioning, ":")+1:], "--log-level", "warn", "--log-format", "json",
		"--sim", strconv.Itoa(b.machines), "--sim-no-enroll", "--sim-profile", b.c.String("profile"), "--sim-bmc", b.c.String("bmc"),
		"--sim-seed", strconv.FormatUint(b.c.Uint64("seed"), 10), "--sim-pace", strconv.FormatFloat(b.c.Float64("pace"), 'f', -1, 64),
	}
}

// awaitAnswer waits until the appliance lists nodes.
func (b *benched) awaitAnswer(ctx context.Context, begun time.Time) (time.Duration, error) {
	cl, err := client.New(b.url, nil)
	if err != nil {
		return 0, err
	}
	defer cl.HTTP.CloseIdleConnections()
	for {
		err := cl.Get(ctx, "/v1/nodes?limit=1", &map[string]any{})
		if err == nil {
			return time.Since(begun), nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-b.ended:
			return 0, fmt.Errorf("the appliance has ended: %s", b.tail())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// kill ends the appliance as a crash does.
func (b *benched) kill() {
	if b.cmd == nil || b.cmd.Process == nil {
		return
	}
	_ = b.cmd.Process.Kill() // it may have ended
	<-b.ended
	b.cmd = nil
}

func (b *benched) pid() int { return b.cmd.Process.Pid }

// tail is the end of what the appliance has complained about.
func (b *benched) tail() string {
	raw, err := os.ReadFile(filepath.Join(b.dir, benchLog))
	if err != nil {
		return err.Error()
	}
	var said []string
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "{") || strings.HasPrefix(line, "bessemer:") {
			said = append(said, printable(line))
		}
	}
	return lastOf(strings.Join(said, "\n"))
}

// memory is the appliance's resident memory and its peak, in bytes.
func (b *benched) memory() (now, peak int64) {
	if b.cmd == nil {
		return 0, 0
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.pid()))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmRSS:":
			now = kib << 10
		case "VmHWM:":
			peak = kib << 10
		}
	}
	return now, peak
}

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

// freePorts finds TCP ports of the loopback address that are free now.
func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports, nil
}
