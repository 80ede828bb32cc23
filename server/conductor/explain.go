package conductor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bessemer/store"
)

// Explain implements [API].
func (c *Conductor) Explain(_ context.Context, node string) (Explanation, error) {
	var n *store.Node
	var r *store.Run
	err := c.db.View(func(tx *store.Tx) (err error) {
		if n, err = findNode(tx, node); err != nil || n.Run == 0 {
			return err
		}
		r, err = store.Runs.Get(tx, store.RunKey(n.Run))
		if errors.Is(err, store.ErrNotFound) {
			r, err = nil, nil
		}
		return err
	})
	if err != nil {
		return Explanation{}, err
	}
	e := explain(n, r, c.index.lastSeen(n.UUID), time.Now())
	if line := c.WaitingFor(n.UUID); line != "" {
		e.WaitingFor = line
	}
	return e, nil
}

// explain says what goes on with a node, from what is recorded of it.
func explain(n *store.Node, r *store.Run, seen sighting, now time.Time) Explanation {
	e := Explanation{State: n.ProvisionState, Since: n.ProvisionUpdatedAt, LastError: n.LastError}
	if e.Since.IsZero() {
		e.Since = n.CreatedAt
	}
	if r != nil {
		explainRun(&e, n, r, seen, now)
		return e
	}
	e.Doing, e.Next = restingText(n), restingNext(n)
	if n.Maintenance {
		e.Doing += "; it is in maintenance: " + orNone(n.MaintenanceReason)
		e.Next = append([]string{fmt.Sprintf("when that is mended: bessemer node maintenance unset %s", ident(n))}, e.Next...)
	}
	return e
}

func explainRun(e *Explanation, n *store.Node, r *store.Run, seen sighting, now time.Time) {
	e.Doing = fmt.Sprintf("%s (run %d, begun %v ago) is at step %s", r.Workflow, r.ID, round(now.Sub(r.Started)), r.Step)
	if r.Ending != "" {
		e.Doing = fmt.Sprintf("%s has %s and is tidying up, at step %s: %s", r.Workflow, r.Ending, r.Step, r.Error)
	}
	if p := r.Progress; p != nil && p.Total > 0 {
		e.Doing += fmt.Sprintf("; %s: %d%% of %d MiB", p.What, p.Done*100/p.Total, p.Total>>20)
	}
	e.WaitingFor, e.Deadline = r.WaitingFor, r.Deadline
	if !seen.At.IsZero() {
		e.Doing += fmt.Sprintf("; last seen of the node: %s, %v ago", seen.What, round(now.Sub(seen.At)))
	} else if r.Ramdisk != nil && !r.Ramdisk.BootedAt.IsZero() {
		e.Doing += fmt.Sprintf("; started %v ago, nothing seen of the node yet", round(now.Sub(r.Ramdisk.BootedAt)))
	}
	e.Next = []string{fmt.Sprintf("watch it: bessemer node trace %s --follow", ident(n))}
	if _, ok := NextState(n.ProvisionState, "abort"); ok {
		e.Next = append(e.Next, fmt.Sprintf("give up: bessemer node abort %s", ident(n)))
	}
}

// restingText says what a state means in which nothing runs.
func restingText(n *store.Node) string {
	switch n.ProvisionState {
	case store.Enroll:
		if n.LastError != "" {
			return "its controller could not be verified; nothing runs"
		}
		return "it is enrolled; its controller has not been verified yet"
	case store.Manageable:
		return "its controller works; it is not offered for instances"
	case store.Available:
		return "it is ready for an instance"
	case store.Active:
		return "it carries an instance; the appliance leaves it alone"
	case store.DeployFailed:
		return "its deploy failed; nothing runs"
	case store.CleanFailed:
		return "its cleaning failed; nothing runs"
	case store.Error:
		return "its undeploy failed; nothing runs"
	}
	return fmt.Sprintf("it is in state %q; nothing runs", n.ProvisionState)
}

// restingNext says what can be done in a state in which nothing runs.
func restingNext(n *store.Node) []string {
	cmd := func(verb, why string) string { return fmt.Sprintf("%s: bessemer node %s %s", why, verb, ident(n)) }
	switch n.ProvisionState {
	case store.Enroll:
		return []string{cmd("manage", "verify the controller")}
	case store.Manageable:
		return []string{cmd("provide", "clean it and offer it for instances"), cmd("clean", "run clean steps by name")}
	case store.Available:
		return []string{cmd("deploy", "put an image on it"), cmd("manage", "take it out of service")}
	case store.Active:
		return []string{cmd("undeploy", "take the instance off"), cmd("rebuild", "write its image anew")}
	case store.DeployFailed:
		return []string{cmd("trace", "see where it stopped"), cmd("deploy", "try again"), cmd("undeploy", "give up and clean it")}
	case store.CleanFailed, store.InspectFailed, store.AdoptFailed:
		return []string{cmd("trace", "see where it stopped"), cmd("manage", "bring it back to manageable")}
	case store.Error:
		return []string{cmd("trace", "see where it stopped"), cmd("undeploy", "try again")}
	}
	return nil
}

func ident(n *store.Node) string {
	if n.Name != "" {
		return n.Name
	}
	return n.UUID
}

func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
