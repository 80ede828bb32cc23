package agent

import (
	"context"
	"encoding/json"
	"maps"
)

// commandTable is everything that the agent does when told to, by the names
// that Ironic-Python-Agent has.
func (x *executor) commandTable() commands {
	return commands{
		"deploy.get_deploy_steps":      {run: x.getSteps("deploy")},
		"deploy.execute_deploy_step":   {async: true, check: checkStep, run: x.executeStep("deploy")},
		"clean.get_clean_steps":        {run: x.getSteps("clean")},
		"clean.execute_clean_step":     {async: true, check: checkStep, run: x.executeStep("clean")},
		"service.get_service_steps":    {run: x.getSteps("service")},
		"service.execute_service_step": {async: true, check: checkStep, run: x.executeStep("service")},
		"standby.prepare_image":        {async: true, check: checkImage, run: x.prepareImage},
		"standby.get_partition_uuids":  {run: x.partitionUUIDs},
		"standby.run_image":            {async: true, run: x.runImage},
		"standby.power_off":            {async: true, run: x.powerOff},
		"standby.sync":                 {run: x.sync},
		"image.install_bootloader":     {async: true, run: x.installBootloader},
		"log.collect_system_logs":      {run: x.collectLogs},
		"poll.get_hardware_info":       {run: x.hardwareInfo},
		"poll.set_node_info":           {run: x.setNodeInfo},
		"system.lockdown":              {run: x.lockdown},
	}
}

// params are the parameters of a command as they came. They may hold secrets
// and are never given back.
type params map[string]any

// into decodes parameters; those that are not known are ignored, since servers
// of other versions may send more.
func (p params) into(v any) error {
	b, err := json.Marshal(map[string]any(p))
	if err != nil {
		return badParams("%v", err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return badParams("%v", err)
	}
	return nil
}

// nodeInfo is the part of a node that the agent looks at.
type nodeInfo struct {
	Properties   map[string]any `json:"properties"`
	InstanceInfo map[string]any `json:"instance_info"`
}

// rootHints are the root device hints of the instance, or else of the node.
func (n nodeInfo) rootHints() map[string]any {
	for _, bag := range []map[string]any{n.InstanceInfo, n.Properties} {
		if h := asMap(bag["root_device"]); len(h) > 0 {
			return h
		}
	}
	return nil
}

// asMap takes an object, also when it comes as text.
func asMap(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case string:
		var m map[string]any
		if json.Unmarshal([]byte(v), &m) == nil {
			return m
		}
	}
	return nil
}

// learn keeps the node that a command brings, which is newer than the one that
// the lookup gave (K-06), and returns the newest.
func (x *executor) learn(p params) nodeInfo {
	var in struct {
		Node *nodeInfo `json:"node"`
	}
	err := p.into(&in)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil && in.Node != nil {
		x.node = *in.Node
	}
	return nodeInfo{maps.Clone(x.node.Properties), maps.Clone(x.node.InstanceInfo)}
}

func (x *executor) setNodeInfo(_ context.Context, p params, _ *job) (map[string]any, error) {
	var in struct {
		Node *nodeInfo `json:"node_info"`
	}
	if err := p.into(&in); err != nil {
		return nil, err
	}
	if in.Node != nil {
		x.mu.Lock()
		x.node = *in.Node
		x.mu.Unlock()
	}
	return nil, nil
}

func (x *executor) hardwareInfo(ctx context.Context, _ params, _ *job) (map[string]any, error) {
	inv, err := x.machine.Inventory(ctx)
	if err != nil {
		return nil, fail("HardwareError", "Error reading the inventory", err)
	}
	b, err := json.Marshal(inv)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(b, &m)
}

// lockdown ends heartbeats and commands; the machine stays as it is, for a
// person to look at.
func (x *executor) lockdown(context.Context, params, *job) (map[string]any, error) {
	x.con.say("locked down: no more commands are taken")
	x.machine.Sync()
	x.lock.Do(func() { close(x.locked) })
	x.hush()
	return nil, nil
}
