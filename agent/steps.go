package agent

import (
	"context"
	"fmt"

	"bessemer/agent/wire"
)

// hardwareManager names what our steps belong to, as Ironic-Python-Agent names
// its own; Ironic stores the version and asks for it again.
const hardwareManager = "GenericHardwareManager"

var stepsVersion = map[string]string{"generic_hardware_manager": "1.2"}

// step is one deploy, clean or service step and how it is done.
type step struct {
	wire.Step
	check func(args params) error
	do    func(ctx context.Context, p params, args params, j *job) (string, error)
}

// steps lists what the agent offers of a kind.
func (x *executor) steps(kind string) []step {
	metadata := step{Step: wire.Step{Interface: "deploy", Step: "erase_devices_metadata"}, do: x.eraseMetadata}
	switch kind {
	case "deploy":
		image := step{Step: wire.Step{
			Interface: "deploy", Step: "write_image",
			ArgsInfo: map[string]any{
				"image_info":  map[string]any{"description": "What to write: urls, os_hash_algo, os_hash_value, disk_format.", "required": true},
				"configdrive": map[string]any{"description": "URL of a config drive, or base64 of gzip of it.", "required": false},
			},
		}, check: checkImage, do: x.writeImage}
		return []step{image, metadata}
	case "clean": // priorities as Ironic-Python-Agent has them: see eraseDevices
		erase := step{Step: wire.Step{Interface: "deploy", Step: "erase_devices", Priority: 10, Abortable: true}, do: x.eraseDevices}
		metadata.Priority, metadata.Abortable = 99, true
		return []step{metadata, erase}
	}
	return nil
}

func (x *executor) getSteps(kind string) func(context.Context, params, *job) (map[string]any, error) {
	return func(_ context.Context, p params, _ *job) (map[string]any, error) {
		x.learn(p)
		list := []wire.Step{}
		for _, s := range x.steps(kind) {
			list = append(list, s.Step)
		}
		return map[string]any{
			kind + "_steps":            map[string][]wire.Step{hardwareManager: list},
			"hardware_manager_version": stepsVersion,
		}, nil
	}
}

// stepParams are the parameters of execute_*_step.
type stepParams struct {
	Step *struct {
		Interface string         `json:"interface"`
		Step      string         `json:"step"`
		Priority  any            `json:"priority"`
		Args      map[string]any `json:"args"`
	} `json:"step"`
	DeployVersion  map[string]string `json:"deploy_version"`
	CleanVersion   map[string]string `json:"clean_version"`
	ServiceVersion map[string]string `json:"service_version"`
}

func checkStep(p params) error {
	var in stepParams
	if err := p.into(&in); err != nil {
		return err
	}
	if in.Step == nil || in.Step.Step == "" {
		return badParams("Malformed step: it has no name")
	}
	return nil
}

func (x *executor) executeStep(kind string) func(context.Context, params, *job) (map[string]any, error) {
	return func(ctx context.Context, p params, j *job) (map[string]any, error) {
		var in stepParams
		if err := p.into(&in); err != nil {
			return nil, err
		}
		if err := checkVersions(in); err != nil {
			return nil, err
		}
		s, ok := x.findStep(kind, in.Step.Interface, in.Step.Step)
		if !ok {
			return nil, fail("CommandExecutionError", "Unknown step", fmt.Errorf("the agent has no %s step %s.%s", kind, short(in.Step.Interface), short(in.Step.Step)))
		}
		args := params(in.Step.Args)
		if s.check != nil {
			if err := s.check(args); err != nil {
				return nil, err
			}
		}
		said, err := s.do(ctx, p, args, j)
		if err != nil {
			return nil, err
		}
		// The step is named so that a server knows which of its steps has
		// ended; its arguments may hold secrets and are not given back.
		named := map[string]any{"interface": s.Interface, "step": s.Step.Step}
		if in.Step.Priority != nil {
			named["priority"] = in.Step.Priority
		}
		return map[string]any{kind + "_result": said, kind + "_step": named}, nil
	}
}

// checkVersions holds the version of the steps that the server knows against
// ours; it differs after the agent was replaced between two steps.
func checkVersions(in stepParams) error {
	for _, v := range []map[string]string{in.DeployVersion, in.CleanVersion, in.ServiceVersion} {
		for name, version := range v {
			if stepsVersion[name] != version {
				return fmt.Errorf("%w (%s is %q, the server has %q)", errVersion, name, stepsVersion[name], version)
			}
		}
	}
	return nil
}

func (x *executor) findStep(kind, iface, name string) (step, bool) {
	for _, s := range x.steps(kind) {
		if s.Step.Step == name && (iface == "" || s.Interface == iface) {
			return s, true
		}
	}
	return step{}, false
}
