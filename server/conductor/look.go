package conductor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// A machine may restart by itself in the middle of a run: a power cut, a
// watchdog, an agent that crashed. Signs of that come from anybody on the
// provisioning network, so a sign makes the conductor look, and nothing else:
// it calls the agent on a new connection. As long as that answers, under its
// pinned certificate, the run goes on undisturbed. One that has gone makes the
// run go back to where its node is started.

// Limits of a look.
const (
	lookTries = 3               // calls in a row that must fail
	lookCall  = 5 * time.Second // one call
	lookLong  = 15              // calls over which an agent must be out of reach where nothing else tells of a restart
	lookMost  = 20              // calls of one look
)

// looks keeps which agents are looked at, and which were found to have gone.
type looks struct {
	mu   sync.Mutex
	ctx  context.Context // nil: not running
	wg   sync.WaitGroup
	busy map[string]*looking  // by node
	last map[string]time.Time // end of the last look, by node
	gone map[string]finding   // by node
}

// A finding is that the agent of a boot has gone.
type finding struct{ token, why string }

// A looking is a look that is under way, and what tells of a restart: before
// it began, and since.
type looking struct{ sign, later string }

func newLooks() *looks {
	return &looks{busy: map[string]*looking{}, last: map[string]time.Time{}, gone: map[string]finding{}}
}

// open lets looks begin; close ends them and waits for them.
func (l *looks) open(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx = ctx
}

func (l *looks) close() {
	l.mu.Lock()
	l.ctx = nil
	l.mu.Unlock()
	l.wg.Wait()
}

// begin runs a look, unless one runs or has ended less than apart ago. One that
// was begun without a sign and runs when there is one begins again with it.
func (l *looks) begin(node, sign string, apart time.Duration, look func(ctx context.Context, sign string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.busy[node]; r != nil {
		if r.sign == "" && sign != "" {
			r.later = sign
		}
		return
	}
	if l.ctx == nil || l.ctx.Err() != nil || time.Since(l.last[node]) < apart {
		return
	}
	r, ctx := &looking{sign: sign}, l.ctx
	l.busy[node] = r
	l.wg.Go(func() {
		for again := true; again; again = l.end(node, r) {
			look(ctx, r.sign)
		}
	})
}

// end ends a look, unless there was a sign during it.
func (l *looks) end(node string, r *looking) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.later != "" && l.ctx != nil && l.ctx.Err() == nil {
		r.sign, r.later = r.later, ""
		return true
	}
	delete(l.busy, node)
	l.last[node] = time.Now()
	return false
}

// told reports whether there was a sign during the look that runs.
func (l *looks) told(node string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.busy[node]
	return r != nil && r.later != ""
}

func (l *looks) condemn(node string, v finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone[node] = v
}

// verdict returns why the agent with a token is known to have gone, "" if it
// is not.
func (l *looks) verdict(node, token string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.gone[node]; token != "" && v.token == token {
		return v.why
	}
	return ""
}

func (l *looks) forget(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.gone, node)
	delete(l.last, node)
}

// suspect has the agent of a node looked at, if the node's run needs one now.
// sign is what tells of a restart, "" for nothing but its silence.
func (c *Conductor) suspect(node, sign string) {
	n, ok := c.index.get(node)
	if w := c.workflows[n.workflow]; !ok || w == nil || !w.needsAgent(n.step) {
		return
	}
	c.looks.begin(node, sign, 2*c.config.Timeouts.Look, func(ctx context.Context, sign string) { c.look(ctx, node, sign) })
}

// look calls a node's agent until it answers, or has failed to often enough.
func (c *Conductor) look(ctx context.Context, node, sign string) {
	n, err := c.node(node)
	if err != nil || n.Agent.URL == "" {
		return
	}
	ctx = store.WithScope(ctx, c.Scope(node))
	begun, missed := time.Now(), 0
	for try := range lookMost {
		if try > 0 && (!sleep(ctx, c.config.Timeouts.Look) || c.looks.told(node)) {
			return
		}
		err := c.agents.probe(ctx, n.Agent, c.rec)
		if ctx.Err() != nil || c.index.lastSeen(node).beat.After(begun) {
			return
		}
		kind := missOf(err)
		if kind == answered {
			return
		}
		if missed++; kind == slow {
			missed = 0
		}
		off := try == 0 && c.isOff(ctx, n)
		if !off && !enough(kind, sign != "", missed) {
			continue
		}
		why := "the agent has gone (" + clip(reason(err), 200) + ")"
		if off {
			why = "the machine is off and the agent has gone"
		}
		if sign != "" {
			why += ", after " + sign
		}
		c.looks.condemn(node, finding{n.Agent.Token, why})
		c.log.Warn().Str("node", node).Str("why", why).Msg("the machine or its agent has restarted by itself")
		c.interrupt(node)
		return
	}
}

// isOff asks the controller whether the machine is off; one that does not say
// so soon is taken for on.
func (c *Conductor) isOff(ctx context.Context, n *store.Node) bool {
	client, err := c.config.BMC.Client(n)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookCall)
	defer cancel()
	s, err := client.PowerState(bmc.Quiet(ctx))
	return err == nil && s == store.PowerOff
}

// A miss is how a call to an agent went.
type miss int

const (
	answered    miss = iota
	slow             // it may live: a connection was made, or broke off
	silent           // nothing came back at all
	unreachable      // a router, or nobody on the link, has said so
	refused          // the machine lives and the agent does not, or it is another one's
)

// missOf sorts the error of a call to an agent.
func missOf(err error) miss {
	var c *connError
	switch {
	case err == nil:
		return answered
	case errors.As(err, &c):
		return c.miss
	}
	return slow
}

// enough decides after how many failures in a row an agent has gone. What a broken network does too counts only together with
// another sign of a restart, or when it lasts.
func enough(kind miss, sign bool, missed int) bool {
	switch {
	case missed < lookTries:
		return false
	case kind == refused, kind >= silent && sign:
		return true
	}
	return kind == unreachable && missed >= lookLong
}

// A connError is a call to an agent for which there was no connection.
type connError struct {
	miss
	error
}

func (e *connError) Unwrap() error { return e.error }

// ofConnection tells errors of making a connection from those of what came
// afterwards.
func ofConnection(err error) error {
	var dial *net.OpError
	switch {
	case errors.As(err, new(*connError)):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return &connError{refused, err}
	case errors.Is(err, syscall.EHOSTUNREACH):
		return &connError{unreachable, err}
	case errors.As(err, &dial) && dial.Op == "dial" && dial.Timeout():
		return &connError{silent, err}
	}
	return err
}

// reason is the innermost error: what the system or the other end said.
func reason(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// startAgain sends a run whose agent has gone back to the start of its node,
// as often as a node may be started for a run. What the agent was in the
// middle of is done anew: its list of commands has gone with its boot.
func (c *Conductor) startAgain(ctx context.Context, t *Task, why string) error {
	if boots := t.boots(); boots > max(t.Limits().BootRetries, 0) {
		return final(fmt.Errorf("%s; this was start %d of the node, and the last: look at its console and at its controller's event log", why, boots))
	}
	c.endStep(ctx, t, store.Failed, errors.New(why))
	t.c.db.Record(ctx, store.Message{
		From: store.Conductor, To: store.Conductor, Kind: store.Self, Label: store.LabelAgentGone,
		Detail: map[string]any{"why": t.redact(why), "starts": t.boots()},
	})
	t.keep("gone", t.redact(why))
	t.keep("clean_base", t.number("clean_step"))
	for _, key := range []string{"sent", "partitions", "download", "hardware_manager_version"} {
		delete(t.Run.Data, key)
	}
	return back("power-off")
}

// boots is how often the run has started its node for the ramdisk.
func (t *Task) boots() int {
	n := t.number("boots")
	if t.Run.Ramdisk != nil {
		n = max(n, t.Run.Ramdisk.Boots)
	}
	return n
}

// again says that this start of the node is not the first, and why.
func (t *Task) again() string {
	gone := t.text("gone")
	if gone == "" || t.Run.Ramdisk == nil {
		return ""
	}
	return fmt.Sprintf("; start %d of at most %d: %s", t.Run.Ramdisk.Boots, 1+max(t.Limits().BootRetries, 0), gone)
}
