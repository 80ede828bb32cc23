package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"bessemer/server/client"
)

// A benched appliance is one under load. It and the rack are processes of their
// own, so that their memory is their own and they can be killed; the rack, whose
// machines would have processors of their own, gives way to the appliance.
type benched struct {
	c                      *cli.Context
	dir, url, provisioning string
	machines               int
	appliance, rack        *child
}

const (
	benchLog = "bench.log"
	rackNice = 10
)

// start starts the appliance, waits for its first answer, and starts the rack.
// took is how long the answer took.
func (b *benched) start(ctx context.Context) (took time.Duration, err error) {
	if b.url == "" {
		ports, err := freePorts(2)
		if err != nil {
			return 0, err
		}
		b.url, b.provisioning = "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	}
	begun := time.Now()
	if b.appliance, err = b.run(b.serveArgs()); err != nil {
		return 0, fmt.Errorf("start the appliance: %w", err)
	}
	cl, err := client.New(b.url, nil)
	if err != nil {
		return 0, err
	}
	defer cl.HTTP.CloseIdleConnections()
	err = b.await(ctx, b.appliance, func() bool { return cl.Get(ctx, "/v1/nodes?limit=1", &map[string]any{}) == nil })
	if err != nil {
		return 0, fmt.Errorf("start the appliance: %w", err)
	}
	took = time.Since(begun)
	if b.c.Bool("one-process") {
		return took, nil
	}
	if b.rack, err = b.run(b.rackArgs()); err != nil {
		return 0, fmt.Errorf("start the rack: %w", err)
	}
	socket := filepath.Join(b.dir, rackDir, rackSocket)
	if err := b.await(ctx, b.rack, func() bool { return reaches(socket) == nil }); err != nil {
		return 0, fmt.Errorf("start the rack: %w", err)
	}
	return took, b.rack.nice(rackNice)
}

func (b *benched) serveArgs() []string {
	args := []string{
		"serve", "--data-dir", b.dir, "--api-listen", strings.TrimPrefix(b.url, "http://"), "--api-auth", "none",
		"--provisioning-port", b.provisioning[strings.LastIndex(b.provisioning, ":")+1:], "--log-level", "warn", "--log-format", "json",
	}
	if b.c.Bool("one-process") {
		return append(args, append([]string{"--sim", strconv.Itoa(b.machines), "--sim-no-enroll"}, b.machineArgs("--sim-")...)...)
	}
	return append(args, "--provisioning-interface", "sim")
}

func (b *benched) rackArgs() []string {
	args := []string{"sim", "up", strconv.Itoa(b.machines), "--no-enroll", "--data-dir", b.dir}
	return append(args, b.machineArgs("--")...)
}

func (b *benched) machineArgs(prefix string) []string {
	return []string{
		prefix + "profile", b.c.String("profile"), prefix + "bmc", b.c.String("bmc"),
		prefix + "seed", strconv.FormatUint(b.c.Uint64("seed"), 10), prefix + "pace", strconv.FormatFloat(b.c.Float64("pace"), 'f', -1, 64),
	}
}

// run runs this program as a child that logs into the directory.
func (b *benched) run(args []string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(b.dir, benchLog), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(self, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "BESSEMER_CONFIG=")
	return begin(cmd)
}

// await waits until a child is ready.
func (b *benched) await(ctx context.Context, p *child, ready func() bool) error {
	for !ready() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ended:
			return fmt.Errorf("it has ended: %s", b.tail())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// kill ends both as a power cut does.
func (b *benched) kill() {
	for _, p := range []*child{b.rack, b.appliance} {
		if p != nil {
			p.kill()
		}
	}
}

// tail is the end of what appliance and rack have complained about.
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

// memory is the resident memory of the appliance and of the rack, and their
// peaks, in bytes.
func (b *benched) memory() (appliance, rack, peak int64) {
	appliance, top := b.appliance.memory()
	rack, rackTop := b.rack.memory()
	return appliance, rack, top + rackTop
}

// A child is a process that this one has started.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func begin(cmd *exec.Cmd) (*child, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &child{cmd, make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

func (p *child) pid() int { return p.cmd.Process.Pid }

func (p *child) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// nice has the system prefer other processes. What it holds for are threads;
// new ones take it from those that make them.
func (p *child) nice(level int) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid()))
	if err != nil {
		return nil //nolint:nilerr // not Linux, or it has ended, which others see
	}
	for _, t := range tasks {
		id, _ := strconv.Atoi(t.Name())
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, level); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("lower the priority of thread %d: %w", id, err)
		}
	}
	return nil
}

// memory is the resident memory of the process and its peak, in bytes; 0 where
// that is not known.
func (p *child) memory() (now, peak int64) {
	if p == nil {
		return 0, 0
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
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
