package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"bessemer/agent/wire"
	"bessemer/store"
)

// Clean is automated cleaning: before a node becomes available, its disks are
// wiped of what the last instance left.
var Clean = Workflow{
	Name:    "clean",
	Running: store.Cleaning, Waiting: store.CleanWait, Target: store.Available,
	Done: cleaned, Failed: store.CleanFailed,
	Steps:     append([]Step{{Name: "is-clean-wanted", Do: isCleanWanted}}, cleanSteps("mark-available", markAvailable)...), // Conductor -> Conductor
	OnFailure: cleanFailed,
	Fault:     "clean failure", FaultFrom: "run-clean-steps",
}

// ManualClean runs the clean steps that a client names.
var ManualClean = Workflow{
	Name:    "manual clean",
	Running: store.Cleaning, Waiting: store.CleanWait, Target: store.Manageable,
	Done: always(store.Manageable), Failed: store.CleanFailed,
	Steps:     cleanSteps("mark-manageable", markManageable),
	OnFailure: cleanFailed,
	Fault:     "clean failure", FaultFrom: "run-clean-steps",
}

func cleanSteps(last string, mark StepFunc) []Step {
	return []Step{
		{Name: "validate", Do: validateClean, Tries: 3},                     // Conductor -> Conductor
		{Name: "power-off", Do: powerOff, Tries: 3},                         // Conductor -> BMC
		{Name: "attach-cleaning-net", Do: attachCleaning},                   // Conductor -> DHCP
		{Name: "set-ramdisk-dhcp", Do: bootRamdisk},                         // Conductor -> DHCP
		{Name: "set-boot-device-pxe", Do: setBootPXE, Tries: 3},             // Conductor -> BMC
		{Name: "reboot", Do: reboot, Tries: 3},                              // Conductor -> BMC
		{Name: "await-agent", Do: awaitAgent, Within: cleanCallback},        // Node -> DHCP, TFTP/HTTPd; Node -> API: lookup, heartbeat
		{Name: "get-clean-steps", Do: getCleanSteps, Within: agentCommand},  // Conductor -> Node
		{Name: "run-clean-steps", Do: runCleanSteps, Within: cleanCallback}, // Conductor -> Node
		{Name: "sync-disks", Do: syncDisks, Within: agentCommand},           // Conductor -> Node
		{Name: "set-instance-dhcp", Do: bootDisk},                           // Conductor -> DHCP
		{Name: "power-off-ramdisk", Do: powerOff, Tries: 3},                 // Conductor -> BMC
		{Name: "detach-cleaning-net", Do: detachCleaning},                   // Conductor -> DHCP
		{Name: last, Do: mark},                                              // Conductor -> Conductor
	}
}

var cleanFailed = []Step{
	{Name: "failed-collect-logs", Do: collectFailureLogs}, // Conductor -> Node
	{Name: "failed-power-off", Do: powerOffAfterFailure},  // Conductor -> BMC
	{Name: "failed-set-instance-dhcp", Do: bootDisk},      // Conductor -> DHCP
	{Name: "failed-detach-net", Do: detachCleaning},       // Conductor -> DHCP
}

// cleaned is where automated cleaning leaves a node: a retired one must not
// be deployed again.
func cleaned(n *store.Node) store.ProvisionState {
	if n.Retired {
		return store.Manageable
	}
	return store.Available
}

// isCleanWanted ends the run at once where automated cleaning is off, or the
// node has no ramdisk to clean it.
func isCleanWanted(ctx context.Context, t *Task) error {
	wanted := !t.c.config.NoAutomatedClean
	if t.Node.AutomatedClean != nil {
		wanted = *t.Node.AutomatedClean
	}
	if !wanted || t.c.iface(t.Node, "deploy") == "fake" {
		t.Note(ctx, store.LabelMarkAvailable)
		return errDone
	}
	return nil
}

func validateClean(ctx context.Context, t *Task) error {
	t.Note(ctx, store.LabelValidate)
	if t.c.iface(t.Node, "deploy") == "fake" {
		t.Note(ctx, store.LabelMarkManageable)
		return errDone
	}
	if err := t.c.checkRamdisk(t.Node, t.Ports); err != nil {
		return final(err)
	}
	return reachable(ctx, t)
}

func markAvailable(ctx context.Context, t *Task) error {
	t.Note(ctx, store.LabelMarkAvailable)
	return nil
}

func markManageable(ctx context.Context, t *Task) error {
	t.Note(ctx, store.LabelMarkManageable)
	return nil
}

// getCleanSteps asks the agent what it can do and settles what it shall do:
// the client's list, or what has a priority.
func getCleanSteps(ctx context.Context, t *Task) error {
	res, err := t.ask(ctx, "clean.get_clean_steps", map[string]any{"node": t.agentNode(), "ports": t.agentPorts()})
	if err != nil {
		return err
	}
	offered := stepsOf(res, "clean_steps")
	var chosen []wire.Step
	if asked := t.Run.Args["clean_steps"]; asked != nil {
		chosen, err = chooseSteps(asked, offered)
	} else {
		chosen = automatedSteps(offered, t.c.config.CleanPriorities)
	}
	if err != nil {
		return final(err)
	}
	if len(chosen) == 0 {
		return final(fmt.Errorf("the agent offers no step that cleans the disks; turn automated cleaning off to do without"))
	}
	if !sameSteps(t.Run.Data["clean_steps"], chosen) { // a restarted machine offers others
		t.keep("clean_step", 0)
		t.keep("clean_base", 0)
	}
	t.keep("clean_steps", chosen)
	t.keep("hardware_manager_version", res["hardware_manager_version"])
	return nil
}

// sameSteps reports whether the steps that were settled on before are those
// chosen now.
func sameSteps(before any, chosen []wire.Step) bool {
	var old []wire.Step
	return decode(before, &old) == nil && slices.EqualFunc(old, chosen, func(a, b wire.Step) bool {
		return a.Interface == b.Interface && a.Step == b.Step
	})
}

// stepsOf reads the steps of a get_*_steps answer, of all hardware managers.
func stepsOf(res map[string]any, list string) []wire.Step {
	var managers map[string][]wire.Step
	if decode(res[list], &managers) != nil {
		return nil
	}
	var all []wire.Step
	for _, steps := range managers {
		for _, s := range steps[:min(len(steps), 200)] {
			s.Step, s.Interface = clip(s.Step, 100), clip(s.Interface, 50)
			all = append(all, s)
		}
	}
	return all
}

// automatedSteps returns the steps with a priority above 0, the highest
// first, each once.
func automatedSteps(offered []wire.Step, override map[string]int) []wire.Step {
	var steps []wire.Step
	for _, s := range offered {
		if p, ok := override[s.Step]; ok {
			s.Priority = p
		}
		same := func(o wire.Step) bool { return o.Step == s.Step && o.Interface == s.Interface }
		if s.Priority > 0 && !slices.ContainsFunc(steps, same) {
			steps = append(steps, s)
		}
	}
	slices.SortStableFunc(steps, func(a, b wire.Step) int { return b.Priority - a.Priority })
	return steps
}

// chooseSteps returns the steps that a client asks for, in its order; each
// must be offered.
func chooseSteps(asked any, offered []wire.Step) ([]wire.Step, error) {
	var want []StepRequest
	if err := decode(asked, &want); err != nil {
		return nil, fmt.Errorf("clean_steps: %w", err)
	}
	var steps []wire.Step
	for _, w := range want {
		i := slices.IndexFunc(offered, func(s wire.Step) bool { return s.Step == w.Step && s.Interface == w.Interface })
		if i < 0 {
			return nil, fmt.Errorf("clean step %s.%s is not offered; the node's ramdisk offers %s", w.Interface, w.Step, names(offered))
		}
		s := offered[i]
		s.Args = w.Args
		steps = append(steps, s)
	}
	return steps, nil
}

func names(steps []wire.Step) string {
	text := ""
	for i, s := range steps {
		if i > 0 {
			text += ", "
		}
		text += s.Interface + "." + s.Step
	}
	return clip(text, 500)
}

// runCleanSteps has the agent carry out the chosen steps one by one.
func runCleanSteps(ctx context.Context, t *Task) error {
	var steps []wire.Step
	if err := decode(t.Run.Data["clean_steps"], &steps); err != nil {
		return final(err)
	}
	i := t.number("clean_step")
	if i >= len(steps) {
		t.Change(func(n *store.Node) { n.CleanStep = nil })
		return nil
	}
	s := steps[i]
	if s.RebootRequested {
		return final(fmt.Errorf("clean step %s asks for a reboot of its own, which this release does not do", s.Step))
	}
	t.Change(func(n *store.Node) {
		n.CleanStep = &store.IronicStep{Interface: s.Interface, Step: s.Step, Priority: s.Priority, Args: s.Args}
	})
	_, err := t.carryOut(ctx, longCommand{
		name: "clean.execute_clean_step", short: "execute_clean_step", nth: i - t.number("clean_base"), what: "clean step " + s.Step,
		params: map[string]any{"step": s, "node": t.agentNode(), "ports": t.agentPorts(), "clean_version": t.Run.Data["hardware_manager_version"]},
		sent:   plainArrow(cleanLabel(s.Step)),
		polled: pollArrow(store.LabelIsCleanDone, store.LabelCleanDone, "execute_clean_step"),
	})
	if err != nil {
		return ofStep(s.Step, err)
	}
	t.keep("clean_step", i+1)
	return errAgain
}

// ofStep names the clean step that an error is of; a pause stays one.
func ofStep(name string, err error) error {
	var p *pauseError
	if errors.As(err, &p) || errors.Is(err, errAway) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

func cleanLabel(step string) string {
	if step == "erase_devices" || step == "erase_devices_metadata" || step == "erase_devices_express" {
		return store.LabelEraseDisks
	}
	return store.LabelExecuteStep
}

// decode turns loose JSON values into a type.
func decode(from, into any) error {
	b, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}
