package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"bessemer/agent/hw"
	"bessemer/agent/wire"
)

// maxJobs is how many commands are remembered.
const maxJobs = 64

var (
	errNoExtension = errors.New("no such extension")
	errBusy        = errors.New("agent is busy")
	errVersion     = errors.New("the agent's steps changed since they were asked for; ask again")
)

// executor takes commands, runs them and remembers how they ended. At most one
// asynchronous command runs at a time; quick ones may be asked beside it.
type executor struct {
	Config
	ctx     context.Context // ends running commands
	machine hw.Machine
	beat    *heart
	con     *console
	table   commands
	client  *http.Client // gets images and config drives, under the policy
	formats []string     // of images that the server permits

	ended  chan struct{} // closed when the machine was ended
	locked chan struct{} // closed by system.lockdown
	// serving ends with ctx, and when hush is called by system.lockdown.
	serving context.Context
	hush    context.CancelFunc
	once    sync.Once
	lock    sync.Once
	wg      sync.WaitGroup

	mu      sync.Mutex
	node    nodeInfo // as last heard
	jobs    []*job   // oldest first
	running *job
	written string // the disk that the last image was written to
}

func newExecutor(ctx context.Context, c Config, m hw.Machine, n *node, beat *heart, con *console) *executor {
	x := &executor{
		Config: c, ctx: ctx, machine: m, beat: beat, con: con,
		node:   nodeInfo{Properties: n.Properties, InstanceInfo: n.InstanceInfo},
		client: c.Policy.Client(), formats: n.formats,
		ended: make(chan struct{}), locked: make(chan struct{}),
	}
	x.serving, x.hush = context.WithCancel(ctx)
	x.table = x.commandTable()
	return x
}

// run waits for the end of the agent, and then for the commands.
func (x *executor) run(ctx context.Context) error {
	defer x.hush()
	defer x.wg.Wait()
	select {
	case <-x.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// execute starts a command. With wait it returns when the command has ended,
// or when ctx has.
func (x *executor) execute(ctx context.Context, r wire.CommandRequest, wait bool) (wire.Command, error) {
	cmd, name, err := x.table.find(r.Name)
	if err != nil {
		return wire.Command{}, err
	}
	p := params(r.Params)
	if cmd.check != nil {
		if err := cmd.check(p); err != nil {
			return wire.Command{}, err
		}
	}
	cmd.run = x.unlessRefused(r.Name, cmd.run)
	j, err := x.admit(name, cmd.async)
	if err != nil {
		return wire.Command{}, err
	}
	if !cmd.async {
		x.perform(ctx, j, cmd, p)
		return j.snapshot(), nil
	}
	x.con.say("%s started", r.Name)
	x.wg.Go(func() {
		x.perform(x.ctx, j, cmd, p)
		x.client.CloseIdleConnections() // the next download is of another command, if there is one
		x.report(r.Name, j.snapshot())
		x.beat.now()
	})
	if wait {
		select {
		case <-j.done:
		case <-ctx.Done():
		}
	}
	return j.snapshot(), nil
}

// admit makes a job for a command, or refuses when another one runs.
func (x *executor) admit(name string, async bool) (*job, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if async && x.running != nil {
		return nil, fmt.Errorf("%w: executing command %s", errBusy, x.running.state.Name)
	}
	j := newJob(uuid.NewString(), name, x.con)
	if async {
		x.running = j
	}
	x.jobs = append(x.jobs, j)
	if len(x.jobs) > maxJobs {
		x.forgetOldest()
	}
	return j, nil
}

// forgetOldest makes room for a command. The running one stays: the server
// still wants to know how it ends.
func (x *executor) forgetOldest() {
	oldest := 0
	if x.jobs[0] == x.running {
		oldest = 1
	}
	x.jobs = slices.Delete(x.jobs, oldest, oldest+1)
}

// release lets the next command in. It is done before a command's end shows, or
// who sees it and sends the next would be told that the agent is busy.
func (x *executor) release(j *job) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running == j {
		x.running = nil
	}
}

// perform runs a command to its end. A panic is a failure of the command.
func (x *executor) perform(ctx context.Context, j *job, cmd command, p params) {
	defer func() {
		if r := recover(); r != nil {
			x.Logger.Error().Str("command", j.state.Name).Interface("panic", r).Bytes("stack", debug.Stack()).Msg("command panicked")
			x.release(j)
			j.finish(nil, fmt.Errorf("%s: internal error: %v", j.state.Name, r))
		}
	}()
	result, err := cmd.run(ctx, p, j)
	x.release(j)
	j.finish(result, err)
}

// unlessRefused is a command that Before may refuse.
func (x *executor) unlessRefused(full string, run runner) runner {
	if x.Before == nil {
		return run
	}
	return func(ctx context.Context, p params, j *job) (map[string]any, error) {
		if err := x.Before(full); err != nil {
			return nil, err
		}
		return run(ctx, p, j)
	}
}

func (x *executor) report(name string, c wire.Command) {
	if c.Error != nil {
		x.con.say("%s failed: %s", name, c.Error.Details)
		x.Logger.Error().Str("command", name).Str("error", c.Error.Details).Msg("command failed")
		return
	}
	x.con.say("%s done", name)
	x.Logger.Info().Str("command", name).Msg("command done")
}

// list returns all remembered commands, oldest first.
func (x *executor) list() []wire.Command {
	x.mu.Lock()
	jobs := append([]*job(nil), x.jobs...)
	x.mu.Unlock()
	out := make([]wire.Command, len(jobs))
	for i, j := range jobs {
		out[i] = j.snapshot()
	}
	return out
}

// find returns a command by its id; with wait, when it has ended or ctx has.
func (x *executor) find(ctx context.Context, id string, wait bool) (wire.Command, bool) {
	x.mu.Lock()
	var found *job
	for _, j := range x.jobs {
		if j.state.ID == id {
			found = j
		}
	}
	x.mu.Unlock()
	if found == nil {
		return wire.Command{}, false
	}
	if wait {
		select {
		case <-found.done:
		case <-ctx.Done():
		}
	}
	return found.snapshot(), true
}

// end makes the machine power off or reboot, after the answer to the command
// has had time to leave.
func (x *executor) end(ctx context.Context, what string, do func() error) error {
	if err := sleep(ctx, 300*time.Millisecond); err != nil {
		return err
	}
	x.con.say("%s", what)
	x.machine.Sync()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	x.once.Do(func() { close(x.ended) })
	return nil
}

// commands are all commands by "extension.name".
type commands map[string]command

type command struct {
	async bool
	check func(params) error // refuses with 400 before anything is done
	run   runner
}

type runner func(context.Context, params, *job) (map[string]any, error)

// find returns a command and its name without the extension.
func (t commands) find(full string) (command, string, error) {
	ext, name, ok := strings.Cut(full, ".")
	if !ok {
		return command{}, "", &paramError{"Invalid command: Command name must be of the form <extension>.<name>"}
	}
	if c, ok := t[full]; ok {
		return c, name, nil
	}
	for k := range t {
		if strings.HasPrefix(k, ext+".") {
			return command{}, "", &paramError{"Invalid command: Unknown command: " + short(name)}
		}
	}
	return command{}, "", fmt.Errorf("%w: %s", errNoExtension, short(ext))
}
