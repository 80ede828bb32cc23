package conductor

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"bessemer/store"
)

// placeLease is how long a node keeps a place without coming forward. One
// whose machine hangs loads nobody, and must not hold up those in line; its
// run goes on without the place.
const placeLease = 5 * time.Minute

// An admission lets only so many nodes at a time do what loads the appliance
// and its network: start, or write an image. The others stand in line, first
// come, first served. Waiting costs no goroutine and no timer of its own: who
// gives a place back wakes the next.
//
// It is memory only. After a restart it is filled from the journal.
type admission struct {
	text   string // what is waited for: "its turn to start (at most 128 machines at once)"
	places int
	wake   func(node string)

	mu    sync.Mutex
	held  map[string]time.Time // when the node took its place, or came forward last
	line  []string
	timer *time.Timer // looks for places that are held too long; nil: nobody waits
}

func newAdmission(doing string, places int, wake func(string)) *admission {
	return &admission{
		text:   fmt.Sprintf("its turn to %s (at most %d machines do at once)", doing, places),
		places: places, wake: wake, held: map[string]time.Time{},
	}
}

// take gives a node a place, or puts it in line; it returns whether the node
// has one. A node that has may ask again.
func (a *admission) take(node string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.held[node]; ok {
		return true
	}
	if len(a.line) == 0 && len(a.held) < a.places {
		a.held[node] = time.Now()
		return true
	}
	if !slices.Contains(a.line, node) {
		a.line = append(a.line, node)
	}
	a.watch()
	return false
}

// hold gives a node a place in any case: an earlier process has let it in.
func (a *admission) hold(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.line = slices.DeleteFunc(a.line, func(n string) bool { return n == node })
	a.held[node] = time.Now()
}

// renew says that a node with a place comes forward.
func (a *admission) renew(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.held[node]; ok {
		a.held[node] = time.Now()
	}
}

// leave gives a node's place back, or takes it out of the line.
func (a *admission) leave(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.held[node]; ok {
		delete(a.held, node)
		a.fill()
		return
	}
	if i := slices.Index(a.line, node); i >= 0 {
		a.line = slices.Delete(a.line, i, i+1)
	}
}

// fill gives free places to those who wait longest. The caller holds mu.
func (a *admission) fill() {
	for len(a.line) > 0 && len(a.held) < a.places {
		next := a.line[0]
		a.line = a.line[1:]
		a.held[next] = time.Now()
		a.wake(next)
	}
}

// watch has places that are held too long given back while somebody waits.
// The caller holds mu.
func (a *admission) watch() {
	if a.timer != nil || len(a.line) == 0 || len(a.held) == 0 {
		return
	}
	oldest := time.Now()
	for _, since := range a.held {
		oldest = earlier(oldest, since)
	}
	a.timer = time.AfterFunc(time.Until(oldest.Add(placeLease))+time.Millisecond, a.expire)
}

func (a *admission) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = nil
	for node, since := range a.held {
		if time.Since(since) >= placeLease {
			delete(a.held, node)
		}
	}
	a.fill()
	a.watch()
}

// stop ends the timer.
func (a *admission) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// count returns how many nodes have a place.
func (a *admission) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.held)
}

// waiting says what a node in line waits for, and where it stands; "" when it
// is not in line.
func (a *admission) waiting(node string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.line, node)
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("%s; it is number %d of %d in line", a.text, i+1, len(a.line))
}

// A lineError is how a step says that its node stands in line.
type lineError struct{ a *admission }

func (e *lineError) Error() string { return "waiting for " + e.a.text }

// admit lets a step go on when its node has a place.
func (t *Task) admit(a *admission) error {
	if a.take(t.Node.UUID) {
		return nil
	}
	return &lineError{a}
}

// places brings the admissions in line with where a node's run stands: what it
// has left behind it gives back.
func (c *Conductor) places(node string, w *Workflow, step string) {
	c.mu.Lock()
	if w != nil && w.needsAgent(step) {
		c.working[node] = true
	} else {
		delete(c.working, node)
	}
	c.mu.Unlock()
	if step != "reboot" && step != "await-agent" {
		c.boots.leave(node)
	}
	if step != "write-image" {
		c.streams.leave(node)
	}
}

// workingAgents is how many agents have something to do.
func (c *Conductor) workingAgents() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.working)
}

// admitAgain fills the admissions from the journal: who was let in keeps its
// place, the others stand in line as they came.
func (c *Conductor) admitAgain(open []*store.Run) {
	open = slices.Clone(open)
	slices.SortStableFunc(open, func(a, b *store.Run) int { return stepBegun(a).Compare(stepBegun(b)) })
	var line []func()
	for _, r := range open {
		a, let := c.boots, r.Ramdisk != nil && !r.Ramdisk.BootedAt.IsZero()
		switch r.Step {
		case "reboot", "await-agent":
		case "write-image":
			sent, _ := r.Data["sent"].(string)
			a, let = c.streams, sent != ""
		default:
			continue
		}
		if let {
			a.hold(r.Node)
		} else {
			line = append(line, func() { a.take(r.Node) })
		}
	}
	for _, take := range line {
		take()
	}
}

// stepBegun is when a run came to the step that it is in.
func stepBegun(r *store.Run) time.Time {
	for _, s := range r.Steps {
		if s.Name == r.Step {
			return s.Started
		}
	}
	return r.Started
}

// WaitingFor implements [API].
func (c *Conductor) WaitingFor(node string) string {
	for _, a := range []*admission{c.boots, c.streams} {
		if text := a.waiting(node); text != "" {
			return text
		}
	}
	return c.unanswered(node)
}

// hanging is how long a step may be at work before it is said what it waits
// for.
const hanging = 5 * time.Second

// unanswered says what a step that has been at work for long waits for: the
// last request that has no answer yet; "" when there is no such step.
func (c *Conductor) unanswered(node string) string {
	c.mu.Lock()
	l := c.lives[node]
	if l == nil || l.since.IsZero() || time.Since(l.since) < hanging {
		c.mu.Unlock()
		return ""
	}
	step, run, at := l.shown.Name, l.run, round(time.Since(l.since))
	c.mu.Unlock()
	ms, err := c.db.LastNodeMessages(node, 16)
	if err != nil {
		c.log.Error().Err(err).Str("node", node).Msg("read what a step waits for")
	}
	answered := map[uint64]bool{}
	for _, m := range slices.Backward(ms) {
		switch {
		case m.Kind == store.Reply:
			answered[m.ReplyTo] = true
		case m.Kind == store.Request && m.Run == run && m.From == store.Conductor && !answered[m.Seq]:
			return fmt.Sprintf("an answer of the %s to %q, for %v", m.To, m.Label, round(time.Since(m.Time)))
		}
	}
	return fmt.Sprintf("step %s to end, which has been at work for %v", step, at)
}
