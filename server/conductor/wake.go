package conductor

import (
	"context"
	"time"
)

// Wake has a node's run looked at soon: its node was heard from.
func (c *Conductor) Wake(node string) { c.queue.add(node) }

// wakeIn wakes a node after a while, instead of when it was to be woken so
// far.
func (c *Conductor) wakeIn(node string, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.timers[node]; t != nil {
		t.Stop()
	}
	if c.timers == nil {
		return // stopped
	}
	var t *time.Timer
	t = time.AfterFunc(max(d, 0), func() {
		c.mu.Lock()
		if c.timers[node] == t {
			delete(c.timers, node)
		}
		c.mu.Unlock()
		c.queue.add(node)
	})
	c.timers[node] = t
}

func (c *Conductor) stopTimers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.timers {
		t.Stop()
	}
	c.timers = nil
}

// hold keeps the function that cancels the step which runs on a node now.
func (c *Conductor) hold(node string, cancel context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancels[node] = cancel
	if l := c.lives[node]; l != nil {
		l.since = time.Now()
	}
}

func (c *Conductor) release(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cancels, node)
	if l := c.lives[node]; l != nil {
		l.since = time.Time{}
	}
}

// interrupt cancels the step that runs on a node, because its run was ended
// or aborted in the store, and has the node looked at.
func (c *Conductor) interrupt(node string) {
	c.mu.Lock()
	if cancel := c.cancels[node]; cancel != nil {
		cancel()
	}
	c.mu.Unlock()
	c.queue.add(node)
}
