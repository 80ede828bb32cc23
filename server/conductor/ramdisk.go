package conductor

import (
	"context"
	"fmt"
	"time"

	"bessemer/store"
)

// awaitAgent waits for the ramdisk's first heartbeat. A machine that gives no
// sign of life for a while is started again: controllers that take a boot
// device and do not heed it are common (B-01). So is one whose agent was
// given its token and does not use it: the answer with the token was lost,
// and it is given once a boot only.
func awaitAgent(ctx context.Context, t *Task) error {
	boot := t.Run.Ramdisk
	if boot == nil || boot.BootedAt.IsZero() {
		return back("power-off")
	}
	if t.Node.Agent.URL != "" {
		if mode := t.c.index.bootMode(t.Node.UUID); mode != "" {
			t.Change(func(n *store.Node) { n.BootMode = mode })
		}
		return nil
	}
	if t.live.adopted && !t.live.looked { // the power may have failed for all of us
		t.live.looked = true
		if t.c.isOff(ctx, t.Node) {
			return t.bootAgain(boot)
		}
	}
	// After a restart all is given its time anew: it may have called in vain.
	seen := t.c.index.lastSeen(t.Node.UUID)
	since, limit := later(seen.At, t.live.begun), t.startLimit()
	if t.Node.Agent.Token != "" {
		since, limit = later(seen.claimed, t.live.begun), t.Limits().Claim
		if seen.repeated == t.Node.Agent.Token { // whoever asks again has not got it
			limit = 0
		}
	}
	if idle := time.Since(since); idle < limit {
		return pause(awaited(seen, boot.BootedAt)+t.again(), limit-idle)
	}
	return t.bootAgain(boot)
}

// bootAgain sends the run back to the start of its node, unless that has been
// tried often enough.
func (t *Task) bootAgain(boot *store.RamdiskBoot) error {
	if boot.Boots > max(t.Limits().BootRetries, 0) {
		return final(fmt.Errorf("the ramdisk has not called, after %d starts of the node; %s%s", boot.Boots, t.c.lastSeen(t), t.again()))
	}
	return back("power-off")
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// awaited says what a starting machine is expected to do next.
func awaited(seen sighting, booted time.Time) string {
	if !seen.At.After(booted) {
		return "the node to ask for an address (no packet since it was started)"
	}
	return "the ramdisk's first heartbeat (last seen: " + seen.What + ")"
}

// lastSeen says, for people, what was last heard of a run's node.
func (c *Conductor) lastSeen(t *Task) string {
	seen := c.index.lastSeen(t.Node.UUID)
	last := t.Node.Agent.LastHeartbeat
	switch {
	case !last.IsZero():
		return fmt.Sprintf("last heartbeat at %s; look at the node's console", last.UTC().Format(time.RFC3339))
	case seen.At.IsZero() || t.Run.Ramdisk != nil && seen.At.Before(t.Run.Ramdisk.BootedAt):
		return "nothing was seen of the node, not even a DHCP request: check its boot order, its cabling and the port's MAC address"
	}
	return fmt.Sprintf("last seen: %s at %s; look at the node's console", seen.What, seen.At.UTC().Format(time.RFC3339))
}
