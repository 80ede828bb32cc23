package conductor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"bessemer/agent/wire"
	"bessemer/store"
)

// agent returns the client of the agent that runs on the node.
func (t *Task) agent() (*agentClient, error) {
	return t.c.agents.client(t.Node.UUID, t.Node.Agent, t.c.rec, t.Limits().AgentCall)
}

// ask has the agent carry out a short command and returns its result.
func (t *Task) ask(ctx context.Context, name string, params map[string]any) (map[string]any, error) {
	a, err := t.agent()
	if err != nil {
		return nil, err
	}
	cmd, err := a.command(ctx, name, params, true)
	if err != nil {
		return nil, err
	}
	return result(cmd)
}

// result returns what a command has come to.
func result(cmd *wire.Command) (map[string]any, error) {
	switch {
	case cmd.Status == wire.Succeeded:
		return cmd.Result, nil
	case cmd.Error != nil:
		text := clip(cmd.Error.Message, 1500)
		switch d := clip(cmd.Error.Details, 1500); {
		case strings.HasPrefix(d, text):
			text = d
		case d != "":
			text += ": " + d
		}
		return nil, final(fmt.Errorf("the agent says: %s", text))
	case cmd.Status == wire.VersionMismatch:
		return nil, final(fmt.Errorf("the agent's hardware managers have changed since its steps were read; start again"))
	case cmd.Status == wire.Running:
		return nil, fmt.Errorf("%w: command %s still runs", errAway, clip(cmd.Name, 100))
	}
	return nil, final(fmt.Errorf("the agent says that command %s ended as %s", clip(cmd.Name, 100), clip(string(cmd.Status), 50)))
}

// A longCommand is a command that the agent carries out in the background.
// The agent's own list of commands is its journal: the n-th of a kind in a
// boot is the n-th that we sent, so one that was sent before a crash is found
// and never sent twice.
type longCommand struct {
	name   string // "deploy.execute_deploy_step"
	short  string // as the agent lists it
	nth    int    // how many of this kind came before it in this boot
	params map[string]any
	what   string // for people: "the image to be written"
	sent   arrow  // names of the arrows
	polled arrow
	// underWay is told at each look that the command has come forward, or is
	// done; may be nil.
	underWay func(context.Context)
}

// carryOut sends the command unless the agent has it, and looks how it
// stands. While it runs, a pause is the error.
func (t *Task) carryOut(ctx context.Context, l longCommand) (map[string]any, error) {
	a, err := t.agent()
	if err != nil {
		return nil, t.silent(err)
	}
	sent := fmt.Sprintf("%s %d", l.short, l.nth)
	listing := ctx
	if t.text("sent") == sent {
		listing = withArrow(ctx, l.polled)
	}
	cmds, err := a.commands(listing)
	if err != nil {
		return nil, t.silent(err)
	}
	t.keep("sent", sent)
	if countOf(cmds, l.short) <= l.nth {
		cmd, err := a.command(withArrow(ctx, l.sent), l.name, l.params, false)
		if err != nil {
			return nil, err
		}
		if cmd.Status != wire.Running {
			return result(cmd)
		}
		return nil, t.working(l.what, nil)
	}
	cmd := nthOf(cmds, l.short, l.nth)
	if l.underWay != nil && (cmd.Progress != nil || cmd.Status == wire.Succeeded) {
		l.underWay(ctx)
	}
	if cmd.Status == wire.Running {
		return nil, t.working(l.what, cmd.Progress)
	}
	return result(cmd)
}

// nthOf returns the n-th command of a name, counted from 0.
func nthOf(cmds []wire.Command, name string, n int) *wire.Command {
	for i := range cmds {
		if countOf(cmds[:i+1], name) == n+1 {
			return &cmds[i]
		}
	}
	return &wire.Command{}
}

// working takes up how far a command has come, and pauses. A command that
// comes forward is given its whole time anew.
func (t *Task) working(what string, p *wire.Progress) error {
	if p != nil {
		if t.Run.Progress == nil || t.Run.Progress.Done != p.Done || t.Run.Progress.What != p.What {
			t.Run.Deadline = time.Time{}
			t.c.streams.renew(t.Node.UUID)
		}
		t.Run.Progress = &store.Progress{
			What: clip(p.What, 100), Done: p.Done, Total: p.Total, Rate: p.Rate, ETA: p.ETA, At: time.Now(),
		}
	}
	return pause(what, grain(time.Since(t.live.begun), t.c.workingAgents()))
}

// Polls of agents.
const (
	pollsPerSecond = 20               // of all agents together
	longestPoll    = 15 * time.Second // of one agent
)

// grain is the time between two polls of an agent that has been at work for a
// while, as one of so many. It is short at first, since small things are done
// soon. An agent that is done sends a heartbeat at once anyhow, so what is
// left to see is how far it has come, and that may be seen more rarely where
// there is much to see.
func grain(since time.Duration, working int) time.Duration {
	d := 2 * time.Second
	switch {
	case since < time.Second:
		d = 200 * time.Millisecond
	case since < time.Minute:
		d = time.Second
	}
	return max(d, min(longestPoll, time.Duration(working)*time.Second/pollsPerSecond))
}

// silent makes a failure of an agent that does not answer and has sent no
// heartbeat for too long: the machine has gone down.
func (t *Task) silent(err error) error {
	last := t.Node.Agent.LastHeartbeat
	heard := later(t.c.index.lastSeen(t.Node.UUID).beat, t.c.born)
	if !last.IsZero() && time.Since(heard) > t.Limits().Heartbeat {
		return final(fmt.Errorf("the agent has gone: no heartbeat since %s (%s), and %w; look at the node's console",
			last.UTC().Format(time.RFC3339), ago(last), err))
	}
	return err
}

// agentNode is the node as agents are told of it: enough for their steps,
// without driver_info and other secrets.
func (t *Task) agentNode() map[string]any {
	return map[string]any{
		"uuid": t.Node.UUID, "name": t.Node.Name, "driver_info": map[string]any{},
		"properties": orEmpty(t.Node.Properties), "instance_info": publicInstanceInfo(t.Node),
		"driver_internal_info": agentInternalInfo(), "provision_state": t.Node.ProvisionState,
		"target_provision_state": t.Node.TargetProvisionState, "raid_config": map[string]any{}, "target_raid_config": map[string]any{},
	}
}

func (t *Task) agentPorts() []map[string]any {
	ports := []map[string]any{}
	for _, p := range t.Ports {
		ports = append(ports, map[string]any{"uuid": p.UUID, "address": p.Address, "pxe_enabled": p.PXEEnabled})
	}
	return ports
}

// agentInternalInfo is what Ironic-Python-Agent's erase steps look up.
func agentInternalInfo() map[string]any {
	return map[string]any{
		"agent_erase_devices_iterations": 1, "agent_erase_devices_zeroize": true,
		"agent_continue_if_secure_erase_failed": false, "agent_enable_nvme_secure_erase": true,
		"agent_enable_ata_secure_erase": true, "disk_erasure_concurrency": 4, "agent_erase_skip_read_only": true,
	}
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}
