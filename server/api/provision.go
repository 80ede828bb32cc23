package api

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"bessemer/server/conductor"
)

// verbs are the targets of a provision request, with the version that brought
// each.
var verbs = map[string]version{
	"active": 1, "deleted": 1, "rebuild": 1, "manage": 4, "provide": 4, "inspect": 6, "abort": 13, "clean": 15,
	"adopt": 17, "rescue": 38, "unrescue": 38, "deploy": 73, "undeploy": 73, "unhold": 85, "service": 87,
}

type provisionBody struct {
	Target         string          `json:"target"`
	ConfigDrive    json.RawMessage `json:"configdrive"`
	CleanSteps     []sentStep      `json:"clean_steps"`
	DeploySteps    []sentStep      `json:"deploy_steps"`
	RescuePassword string          `json:"rescue_password"`
	DisableRamdisk any             `json:"disable_ramdisk"`
}

func setProvision(c *call) error {
	var body provisionBody
	if err := c.decode(&body); err != nil {
		return err
	}
	n, err := c.node()
	if err != nil {
		return err
	}
	if since, ok := verbs[body.Target]; ok && since > c.v {
		return notAcceptable("the target "+body.Target, since)
	} else if !ok {
		return notInState(body.Target, n.UUID, string(n.ProvisionState))
	}
	req, err := body.request(c.v)
	if err != nil {
		return err
	}
	ctx, cancel := c.lasting(2 * time.Minute)
	defer cancel()
	if err := c.api.conductor.Provision(ctx, n.UUID, req); err != nil {
		return err
	}
	return c.accepted("/nodes/" + c.path("node") + "/states")
}

// request checks what came beside the target against the version and the
// target, and returns what the conductor is to do.
func (b *provisionBody) request(v version) (r conductor.ProvisionRequest, err error) {
	r = conductor.ProvisionRequest{Target: b.Target, Rebuild: b.Target == "rebuild"}
	if r.ConfigDrive, err = b.configDrive(v); err != nil {
		return r, err
	}
	if r.CleanSteps, err = b.steps("clean_steps", b.CleanSteps, false); err != nil {
		return r, err
	}
	if r.DeploySteps, err = b.steps("deploy_steps", b.DeploySteps, true); err != nil {
		return r, err
	}
	if r.DisableRamdisk, err = parseBool("disable_ramdisk", b.DisableRamdisk); err != nil {
		return r, err
	}
	return r, b.fits(v)
}

// fits refuses parameters that do not go with the target or the version.
func (b *provisionBody) fits(v version) error {
	deploys := slices.Contains([]string{"active", "deploy", "rebuild"}, b.Target)
	switch {
	case b.CleanSteps != nil && b.Target != "clean":
		return invalid("\"clean_steps\" is only valid when setting target provision state to clean")
	case b.CleanSteps == nil && b.Target == "clean":
		return invalid("\"clean_steps\" is required when setting target provision state to clean")
	case b.DeploySteps != nil && v < 69:
		return notAcceptable("deploy_steps", 69)
	case b.DeploySteps != nil && !deploys:
		return invalid("\"deploy_steps\" is only valid when setting target provision state to active or rebuild")
	case b.DisableRamdisk != nil && v < 70:
		return notAcceptable("disable_ramdisk", 70)
	case b.DisableRamdisk != nil && b.Target != "clean":
		return invalid("\"disable_ramdisk\" is only valid when setting target provision state to clean")
	case b.RescuePassword != "" && b.Target != "rescue":
		return invalid("\"rescue_password\" is only valid when setting target provision state to rescue")
	case strings.TrimSpace(b.RescuePassword) == "" && b.Target == "rescue":
		return invalid("A non-empty \"rescue_password\" is required when setting target provision state to rescue")
	}
	return nil
}

var base64Only = regexp.MustCompile(`^[A-Za-z0-9+/=\s]*$`)

// configDrive returns the config drive in one of its three forms.
func (b *provisionBody) configDrive(v version) (any, error) {
	if len(b.ConfigDrive) == 0 || string(b.ConfigDrive) == "null" || string(b.ConfigDrive) == `""` {
		return nil, nil
	}
	allowed := []string{"active", "deploy"}
	if v >= 35 {
		allowed = append(allowed, "rebuild")
	}
	if !slices.Contains(allowed, b.Target) {
		return nil, invalid("Adding a config drive is only supported when setting provision state to %s", strings.Join(allowed, ", "))
	}
	var sent any
	if err := json.Unmarshal(b.ConfigDrive, &sent); err != nil {
		return nil, invalid("Invalid configdrive format: it is not JSON")
	}
	switch d := sent.(type) {
	case string:
		if !strings.Contains(d, "://") && !base64Only.MatchString(d) {
			return nil, invalid("Invalid configdrive format: it is neither a JSON, nor a URL, nor a base64 string")
		}
		return d, nil
	case map[string]any:
		return d, checkConfigDrive(d, v)
	}
	return nil, invalid("Invalid configdrive format: it must be an object or a string")
}

func checkConfigDrive(d map[string]any, v version) error {
	if v < 56 {
		return invalid("Providing a JSON object for configdrive is only supported starting with API version 1.56")
	}
	for k, part := range d {
		_, object := part.(map[string]any)
		switch k {
		case "meta_data", "network_data":
		case "vendor_data":
			if v < 59 {
				return invalid("Providing vendor_data in configdrive is only supported starting with API version 1.59")
			}
		case "user_data":
			_, text := part.(string)
			_, list := part.([]any)
			object = object || text || list || part == nil
		default:
			return invalid("Invalid configdrive format: unknown key %s", shown(k))
		}
		if !object {
			return invalid("Invalid configdrive format: %s has the wrong type", k)
		}
	}
	return nil
}

// A sentStep is a step as clients send it: its priority may be text.
type sentStep struct {
	Interface string         `json:"interface"`
	Step      string         `json:"step"`
	Args      map[string]any `json:"args"`
	Priority  any            `json:"priority"`
}

var stepInterfaces = []string{"bios", "deploy", "firmware", "management", "network", "power", "raid", "vendor"}

const maxSteps = 256

// steps checks a list of steps. prioritized ones, a deploy's, must have args
// and a priority; others must not.
func (b *provisionBody) steps(name string, sent []sentStep, prioritized bool) ([]conductor.StepRequest, error) {
	if len(sent) > maxSteps {
		return nil, invalid("Invalid %s: more than %d steps", name, maxSteps)
	}
	var out []conductor.StepRequest
	for i, s := range sent {
		switch {
		case !slices.Contains(stepInterfaces, s.Interface):
			return nil, invalid("Invalid %s: step %d: interface must be one of %s", name, i, strings.Join(stepInterfaces, ", "))
		case s.Step == "" || len(s.Step) > 255:
			return nil, invalid("Invalid %s: step %d: step must be a name", name, i)
		case prioritized && s.Args == nil:
			return nil, invalid("Invalid %s: step %d: args is required", name, i)
		case prioritized && s.Priority == nil:
			return nil, invalid("Invalid %s: step %d: priority is required", name, i)
		case !prioritized && s.Priority != nil:
			return nil, invalid("Invalid %s: step %d: priority is not allowed", name, i)
		}
		r := conductor.StepRequest{Interface: s.Interface, Step: s.Step, Args: s.Args}
		if prioritized {
			p, ok := priority(s.Priority)
			if !ok {
				return nil, invalid("Invalid %s: step %d: priority must be a number from 0 on", name, i)
			}
			r.Priority = &p
		}
		out = append(out, r)
	}
	return out, duplicates(name, out)
}

func priority(v any) (int, bool) {
	switch v := v.(type) {
	case float64:
		return int(v), v >= 0 && v < 1e9 && v == float64(int(v))
	case string:
		n, err := strconv.ParseUint(v, 10, 30)
		return int(n), err == nil
	}
	return 0, false
}

func duplicates(name string, steps []conductor.StepRequest) error {
	seen := map[string]bool{}
	for _, s := range steps {
		k := s.Interface + "." + s.Step
		if s.Priority != nil && seen[k] {
			return invalid("Invalid %s: duplicate step %s", name, shown(k))
		}
		seen[k] = true
	}
	return nil
}
