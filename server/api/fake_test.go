package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"bessemer/agent/wire"
	"bessemer/bmc"
	"bessemer/server/conductor"
	"bessemer/store"
)

// fakeConductor moves nodes through their states at once, over the same store
// as the API under test.
type fakeConductor struct {
	db    *store.DB
	types bmc.Types

	mu      sync.Mutex
	boot    map[string]bmc.Boot
	vifs    map[string][]string
	changed []string
	asked   []conductor.ProvisionRequest
	fail    error // what every call returns, if set
	boom    bool  // panic instead
	runs    uint64
	step    store.RunStep // runs now in run runs
	line    string        // what every node waits for
}

func newFakeConductor(db *store.DB) *fakeConductor {
	fake := func(names ...string) []string { return names }
	return &fakeConductor{
		db: db, boot: map[string]bmc.Boot{}, vifs: map[string][]string{},
		types: bmc.Types{
			"fake-hardware": {
				Interfaces: map[string][]string{
					"bios": fake("fake", "no-bios"), "boot": fake("fake", "ipxe", "pxe"), "console": fake("fake", "no-console"),
					"deploy": fake("fake", "direct"), "inspect": fake("fake", "no-inspect"), "management": fake("fake"),
					"network": fake("noop"), "power": fake("fake"), "raid": fake("fake", "no-raid"),
					"rescue": fake("fake", "no-rescue"), "storage": fake("noop", "fake"), "vendor": fake("fake", "no-vendor"),
				},
				Properties: []bmc.Property{{Name: "fake_key", Help: "A key that is a secret.", Secret: true}},
			},
			"redfish": {
				Interfaces: map[string][]string{
					"boot": fake("ipxe"), "deploy": fake("direct"), "management": fake("redfish"), "power": fake("redfish"),
				},
				Properties: []bmc.Property{
					{Name: "redfish_address", Help: "URL of the controller. Required.", Required: true},
					{Name: "redfish_password", Help: "Password. Optional.", Secret: true},
				},
			},
		},
	}
}

func (f *fakeConductor) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.boom {
		panic("secret-in-a-panic")
	}
	return f.fail
}

var fakeMoves = map[string]struct {
	from []store.ProvisionState
	to   store.ProvisionState
}{
	"manage":   {[]store.ProvisionState{store.Enroll, store.Available, store.CleanFailed, store.InspectFailed, store.AdoptFailed}, store.Manageable},
	"provide":  {[]store.ProvisionState{store.Manageable}, store.Available},
	"inspect":  {[]store.ProvisionState{store.Manageable, store.InspectFailed}, store.Manageable},
	"clean":    {[]store.ProvisionState{store.Manageable}, store.CleanFailed},
	"adopt":    {[]store.ProvisionState{store.Manageable}, store.Active},
	"active":   {[]store.ProvisionState{store.Available, store.DeployFailed}, store.Active},
	"deploy":   {[]store.ProvisionState{store.Available, store.DeployFailed}, store.Active},
	"rebuild":  {[]store.ProvisionState{store.Active, store.DeployFailed, store.Error}, store.Active},
	"deleted":  {[]store.ProvisionState{store.Active, store.DeployWait, store.DeployFailed, store.Error}, store.Available},
	"undeploy": {[]store.ProvisionState{store.Active, store.DeployWait, store.DeployFailed, store.Error}, store.Available},
	"abort":    {[]store.ProvisionState{store.CleanWait, store.DeployWait}, store.DeployFailed},
	"rescue":   {[]store.ProvisionState{store.Active}, store.Rescue},
	"unrescue": {[]store.ProvisionState{store.Rescue}, store.Active},
}

func (f *fakeConductor) Provision(ctx context.Context, node string, r conductor.ProvisionRequest) error {
	if err := f.failure(); err != nil {
		return err
	}
	err := f.db.Update(func(tx *store.Tx) error {
		n, err := store.Nodes.Get(tx, node)
		if err != nil {
			return err
		}
		deploys := r.Target == "active" || r.Target == "deploy"
		m, ok := fakeMoves[r.Target]
		switch {
		case n.Maintenance && deploys:
			return fmt.Errorf("%w: node %s is in maintenance", conductor.ErrInvalid, node)
		case n.Reservation != nil:
			return fmt.Errorf("%w: node %s", conductor.ErrLocked, node)
		case !ok || !slices.Contains(m.from, n.ProvisionState):
			return fmt.Errorf("%w: the requested action %q can not be performed on node %q while it is in state %q", conductor.ErrState, r.Target, node, n.ProvisionState)
		case n.Protected && (r.Target == "deleted" || r.Target == "rebuild"):
			return fmt.Errorf("%w: node %s is protected", conductor.ErrForbidden, node)
		case deploys && n.InstanceInfo["image_source"] == nil:
			return fmt.Errorf("%w: instance_info/image_source is missing", conductor.ErrInvalid)
		}
		n.ProvisionState, n.ProvisionUpdatedAt = m.to, time.Now()
		return store.Nodes.Put(tx, n)
	})
	if err == nil {
		f.mu.Lock()
		f.asked = append(f.asked, r)
		f.mu.Unlock()
	}
	return err
}

func (f *fakeConductor) SetPower(ctx context.Context, node string, target store.PowerState, timeout time.Duration) error {
	if err := f.failure(); err != nil {
		return err
	}
	to := store.PowerOn
	if target == store.PowerOff || target == store.SoftPowerOff {
		to = store.PowerOff
	}
	return f.db.Update(func(tx *store.Tx) error {
		n, err := store.Nodes.Get(tx, node)
		if err != nil {
			return err
		}
		n.PowerState = to
		return store.Nodes.Put(tx, n)
	})
}

func (f *fakeConductor) BootDevice(ctx context.Context, node string) (bmc.Boot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.boot[node], f.fail
}

func (f *fakeConductor) SetBootDevice(ctx context.Context, node string, b bmc.Boot) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boot[node] = b
	return f.fail
}

func (f *fakeConductor) SupportedBootDevices(ctx context.Context, node string) ([]bmc.BootDevice, error) {
	return []bmc.BootDevice{bmc.PXE, bmc.Disk}, f.failure()
}

func (f *fakeConductor) Validate(ctx context.Context, node string) (map[string]conductor.Validation, error) {
	out := map[string]conductor.Validation{}
	yes := true
	for _, k := range []string{"boot", "deploy", "management", "network", "power", "bios", "console", "inspect", "raid", "rescue", "storage"} {
		out[k] = conductor.Validation{Result: &yes}
	}
	return out, f.failure()
}

func (f *fakeConductor) AttachVIF(ctx context.Context, node string, vif map[string]any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.vifs[node] = append(f.vifs[node], vif["id"].(string))
	return f.fail
}

func (f *fakeConductor) DetachVIF(ctx context.Context, node, vif string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.vifs[node], vif)
	if i < 0 {
		return fmt.Errorf("%w: VIF %s is not attached", conductor.ErrInvalid, vif)
	}
	f.vifs[node] = slices.Delete(f.vifs[node], i, i+1)
	return f.fail
}

func (f *fakeConductor) VIFs(ctx context.Context, node string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.vifs[node]), f.fail
}

func (f *fakeConductor) Lookup(ctx context.Context, macs []string, uuid, peer string, wantToken bool) (wire.LookupResponse, error) {
	if err := f.failure(); err != nil {
		return wire.LookupResponse{}, err
	}
	var r wire.LookupResponse
	err := f.db.Update(func(tx *store.Tx) error {
		for _, mac := range macs {
			p, err := store.Ports.By(tx, "address", mac)
			if err != nil {
				continue
			}
			n, err := store.Nodes.Get(tx, p.NodeUUID)
			if err != nil || n.ProvisionState != store.DeployWait {
				continue
			}
			r.Node = wire.LookupNode{UUID: n.UUID, InstanceInfo: n.InstanceInfo, DriverInternalInfo: n.DriverInternalInfo}
			r.Config.AgentToken = masked
			if wantToken && n.Agent.Token == "" {
				n.Agent = store.Agent{Token: "token-of-43-characters-that-is-given-once-only", Address: peer}
				r.Config.AgentToken = n.Agent.Token
				return store.Nodes.Put(tx, n)
			}
			return nil
		}
		return fmt.Errorf("%w: no node awaits this machine", conductor.ErrNotFound)
	})
	return r, err
}

func (f *fakeConductor) Heartbeat(ctx context.Context, node, peer string, h wire.Heartbeat) error {
	if err := f.failure(); err != nil {
		return err
	}
	return f.db.Update(func(tx *store.Tx) error {
		n, err := store.Nodes.Get(tx, node)
		if err != nil {
			return err
		}
		if n.Agent.Token == "" || n.Agent.Token != h.AgentToken {
			return fmt.Errorf("%w: wrong agent token", conductor.ErrBadAgent)
		}
		n.Agent.URL = h.CallbackURL
		return store.Nodes.Put(tx, n)
	})
}

func (f *fakeConductor) Types() bmc.Types { return f.types }

func (f *fakeConductor) CheckDriver(n *store.Node) error {
	t, ok := f.types[n.Driver]
	if !ok {
		return fmt.Errorf("%w: no driver %q is enabled", conductor.ErrInvalid, n.Driver)
	}
	var err error
	for _, kind := range slices.Sorted(maps.Keys(n.Interfaces)) {
		name := n.Interfaces[kind]
		if names := t.Interfaces[kind]; len(names) > 0 && !slices.Contains(names, name) {
			err = errors.Join(err, fmt.Errorf("%w: driver %s has no %s interface %q", conductor.ErrInvalid, n.Driver, kind, name))
		}
	}
	return err
}

func (f *fakeConductor) NodeChanged(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = append(f.changed, node)
}

func (f *fakeConductor) Explain(ctx context.Context, node string) (conductor.Explanation, error) {
	return conductor.Explanation{State: store.Enroll, Doing: "Nothing.", Next: []string{"bessemer node manage " + node}}, f.failure()
}

func (f *fakeConductor) WaitingFor(string) string { return f.line }

func (f *fakeConductor) RunningStep(string) (uint64, store.RunStep, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runs, f.step, f.runs != 0
}

func (f *fakeConductor) Hostname() string { return "refhost" }

var _ conductor.API = (*fakeConductor)(nil)
