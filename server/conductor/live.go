package conductor

import (
	"time"

	"bessemer/store"
)

// A live step is what this process knows of the step that a node's run is in.
// Its times are by the clock that only goes forward: whoever sets the time of
// day, or whatever passes while the appliance is down, ends no wait.
type liveStep struct {
	run   uint64
	shown store.RunStep // as begun; what is journaled lags behind
	begun time.Time     // in this process
	until time.Time     // when it has paused long enough; zero: it has not paused yet
	again time.Time     // when it may be tried again after a failure
	since time.Time     // when it was called last; zero: it is not at work

	adopted bool // an earlier process began the run, and this is the first step here
	looked  bool // whether the machine is on
}

// live returns the live step of a task, a new one when the run has come to
// another step. Only the worker that has the node uses it, but for shown.
func (c *Conductor) live(t *Task) *liveStep {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lives[t.Node.UUID]
	if l == nil || l.run != t.Run.ID || l.shown.Name != t.step.Name {
		adopted := l == nil || l.run != t.Run.ID
		l = &liveStep{run: t.Run.ID, shown: store.RunStep{Name: t.step.Name}, begun: time.Now(), adopted: adopted}
		c.lives[t.Node.UUID] = l
	}
	return l
}

// show has a step seen as it stands now, before it is journaled.
func (c *Conductor) show(t *Task, s store.RunStep) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.live.shown = s
}

// forgetLive drops what is known of a node's run that has ended.
func (c *Conductor) forgetLive(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lives, node)
}

// RunningStep implements [API].
func (c *Conductor) RunningStep(node string) (run uint64, s store.RunStep, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lives[node]
	if l == nil || l.shown.Outcome != store.Running {
		return 0, store.RunStep{}, false
	}
	return l.run, l.shown, true
}
