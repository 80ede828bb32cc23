package conductor

import (
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bessemer/bmc"
	"bessemer/store"
)

// TestMachineIsIronics compares the state table with Ironic's documented one:
// which verb may be used where, and where it leads.
func TestMachineIsIronics(t *testing.T) {
	states, transitions := 0, 0
	for _, r := range Machine {
		states++
		transitions += len(r.Next)
		for event, next := range r.Next {
			if RuleOf(next).State == "" {
				t.Errorf("%s --%s--> %q, which is no state", r.State, event, next)
			}
		}
		if r.Kind == Stable && r.Target != "" || r.Kind != Stable && r.Target == "" {
			t.Errorf("%s is %s and has target %q", r.State, r.Kind, r.Target)
		}
	}
	if states != 30 || transitions != 93 {
		t.Errorf("%d states and %d transitions, want 30 and 93", states, transitions)
	}
	want := map[string]string{ // verb -> states it may be used in
		"active":   "available, deploy failed",
		"rebuild":  "active, deploy failed, error",
		"deleted":  "active, deploy failed, error, rescue, rescue failed, rescue wait, service failed, service wait, unrescue failed, wait call-back",
		"manage":   "adopt failed, available, clean failed, enroll, inspect failed",
		"provide":  "manageable",
		"inspect":  "inspect failed, manageable",
		"clean":    "manageable",
		"adopt":    "adopt failed, manageable",
		"service":  "active, service failed, service hold",
		"rescue":   "active, rescue, rescue failed, service failed, unrescue failed",
		"unrescue": "rescue, rescue failed, unrescue failed",
		"abort":    "clean hold, clean wait, deploy hold, inspect wait, rescue wait, service failed, service hold, service wait, wait call-back",
		"unhold":   "clean hold, deploy hold, service hold",
		"done":     "", // an event, not a verb
	}
	want["deploy"], want["undeploy"] = want["active"], want["deleted"]
	for _, verb := range slices.Sorted(maps.Keys(want)) {
		var in []string
		for _, r := range Machine {
			if _, ok := NextState(r.State, verb); ok {
				in = append(in, string(r.State))
			}
		}
		slices.Sort(in)
		if got := strings.Join(in, ", "); got != want[verb] {
			t.Errorf("%s is allowed in %s, want %s", verb, got, want[verb])
		}
	}
	if next, _ := NextState(store.Enroll, "manage"); next != store.Verifying {
		t.Errorf("manage leads from enroll to %s", next)
	}
	if next, _ := NextState(store.CleanFailed, "manage"); next != store.Manageable {
		t.Errorf("manage leads from clean failed to %s", next)
	}
}

func TestStateSets(t *testing.T) {
	list := func(in func(store.ProvisionState) bool) string {
		var names []string
		for _, r := range Machine {
			if in(r.State) {
				names = append(names, string(r.State))
			}
		}
		slices.Sort(names)
		return strings.Join(names, ", ")
	}
	for name, tt := range map[string]struct {
		in   func(store.ProvisionState) bool
		want string
	}{
		"update": {UpdateAllowed, "active, adopt failed, available, clean failed, deploy failed, enroll, error, inspect failed, inspect wait, inspecting, manageable, rescue, rescue failed, service failed, service hold, unrescue failed, verifying"},
		"delete": {DeleteAllowed, "adopt failed, available, enroll, manageable"},
		"lookup": {LookupAllowed, "clean wait, cleaning, deploying, inspect wait, inspecting, rescue wait, rescuing, service wait, wait call-back"},
	} {
		if got := list(tt.in); got != tt.want {
			t.Errorf("%s is allowed in %s, want %s", name, got, tt.want)
		}
	}
}

// TestRefusals are requests that must change nothing.
func TestRefusals(t *testing.T) {
	tests := []struct {
		name    string
		state   store.ProvisionState
		change  func(*store.Node)
		request ProvisionRequest
		want    error
		text    string
	}{
		{"no such verb", store.Available, nil, ProvisionRequest{Target: "explode"}, ErrInvalid, "no provision target"},
		{"an event is no verb", store.Verifying, nil, ProvisionRequest{Target: "done"}, ErrInvalid, "no provision target"},
		{"wrong state", store.Enroll, nil, ProvisionRequest{Target: "active"}, ErrState, `"active" can not be performed`},
		{"busy state", store.Deploying, nil, ProvisionRequest{Target: "provide"}, ErrState, "while it is in state"},
		{"later verb", store.Manageable, nil, ProvisionRequest{Target: "inspect"}, ErrInvalid, "not supported yet"},
		{"maintenance", store.Available, func(n *store.Node) { n.Maintenance = true }, ProvisionRequest{Target: "active"}, ErrInvalid, "in maintenance"},
		{"protected", store.Active, func(n *store.Node) { n.Protected = true }, ProvisionRequest{Target: "deleted"}, ErrForbidden, "protected"},
		{"protected from rebuild", store.Active, func(n *store.Node) { n.Protected = true }, ProvisionRequest{Target: "rebuild"}, ErrForbidden, "protected"},
		{"retired", store.Manageable, func(n *store.Node) { n.Retired = true }, ProvisionRequest{Target: "provide"}, ErrInvalid, "retired"},
		{"no image", store.Available, func(n *store.Node) { n.InstanceInfo = nil }, ProvisionRequest{Target: "active"}, ErrInvalid, "no image_source"},
		{"unknown image", store.Available, func(n *store.Node) { n.InstanceInfo["image_source"] = "windows" }, ProvisionRequest{Target: "active"}, ErrInvalid, "no such image"},
		{"bad boot mode", store.Available, func(n *store.Node) { n.Properties["capabilities"] = "boot_mode:efi" }, ProvisionRequest{Target: "active"}, ErrInvalid, "not uefi or bios"},
		{"bad root device", store.Available, func(n *store.Node) { n.Properties["root_device"] = map[string]any{"colour": "red"} }, ProvisionRequest{Target: "active"}, ErrInvalid, `unknown hint "colour"`},
		{"bad driver_info", store.Available, func(n *store.Node) { n.DriverInfo = map[string]any{"bad": 1} }, ProvisionRequest{Target: "active"}, ErrInvalid, "bad: must not be set"},
		{"bad driver_info to verify", store.Enroll, func(n *store.Node) { n.DriverInfo = map[string]any{"bad": 1} }, ProvisionRequest{Target: "manage"}, ErrInvalid, "bad: must not be set"},
		{"deploy steps", store.Available, nil, ProvisionRequest{Target: "active", DeploySteps: []StepRequest{{}}}, ErrInvalid, "deploy_steps"},
		{"config drive that is nothing", store.Available, nil, ProvisionRequest{Target: "active", ConfigDrive: "hello world"}, ErrInvalid, "neither a URL nor base64"},
		{"config drive that is JSON text", store.Available, nil, ProvisionRequest{Target: "active", ConfigDrive: `{"meta_data":{}}`}, ErrInvalid, "JSON in a string"},
		{"config drive without gzip", store.Available, nil, ProvisionRequest{Target: "active", ConfigDrive: "aGVsbG8="}, ErrInvalid, "not of a gzip file"},
		{"config drive with unknown key", store.Available, nil, ProvisionRequest{Target: "active", ConfigDrive: map[string]any{"metadata": 1}}, ErrInvalid, `unknown key "metadata"`},
		{"config drive at a refused address", store.Available, nil, ProvisionRequest{Target: "active", ConfigDrive: "http://169.254.169.254/x"}, ErrInvalid, "configdrive"},
		{"config drive of another scheme", store.Available, nil, ProvisionRequest{Target: "active", ConfigDrive: "file:///etc/passwd"}, ErrInvalid, "neither a URL nor base64"},
		{"config drive of a wrong type", store.Available, nil, ProvisionRequest{Target: "active", ConfigDrive: 7}, ErrInvalid, "is a int"},
		{"no clean steps", store.Manageable, nil, ProvisionRequest{Target: "clean"}, ErrInvalid, "clean_steps is required"},
		{"clean steps of another interface", store.Manageable, nil, ProvisionRequest{Target: "clean", CleanSteps: []StepRequest{{Interface: "bios", Step: "reset"}}}, ErrInvalid, `interface "bios"`},
		{"abort of nothing", store.Active, nil, ProvisionRequest{Target: "abort"}, ErrState, "abort"},
		{"locked", store.Available, func(n *store.Node) { n.Reservation = &store.Reservation{Holder: "h", Why: "w"} }, ProvisionRequest{Target: "active"}, ErrLocked, "locked by host h, for w"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.stop()
			w.enroll(tt.state, func(n *store.Node) {
				if tt.change != nil {
					tt.change(n)
				}
			})
			before := w.get()
			err := w.Provision(t.Context(), testNode, tt.request)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.text)
			}
			if n := w.get(); !cmp.Equal(before, n) {
				t.Errorf("the node was changed: %s", cmp.Diff(before, n))
			}
		})
	}
}

func TestUnknownNode(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, explainErr := w.Explain(ctx, "nobody")
	_, vifErr := w.VIFs(ctx, "nobody")
	_, bootErr := w.BootDevice(ctx, "nobody")
	_, validateErr := w.Validate(ctx, "nobody")
	for what, err := range map[string]error{
		"provision": w.Provision(ctx, "nobody", ProvisionRequest{Target: "active"}),
		"power":     w.SetPower(ctx, "nobody", store.PowerOn, 0),
		"explain":   explainErr, "vifs": vifErr, "boot device": bootErr, "validate": validateErr,
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestOneRunPerNode: of 64 requests at once exactly one is taken, each time.
func TestOneRunPerNode(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Active, func(n *store.Node) { n.PowerState = store.PowerOff })
	begun := 0
	for round := range 20 {
		var taken atomic.Int32
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				err := w.SetPower(t.Context(), testNode, store.Rebooting, 0)
				switch {
				case err == nil:
					taken.Add(1)
				case !errors.Is(err, ErrLocked):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		w.settled()
		begun += int(taken.Load())
		if taken.Load() < 1 || w.m.starts() != begun {
			t.Fatalf("round %d: %d requests were taken in all, the machine was started %d times", round, begun, w.m.starts())
		}
	}
	w.enroll(store.Available)
	w.stop() // nothing runs, so a second request has no gap to get in
	var taken, refused atomic.Int32
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			switch err := w.Provision(t.Context(), testNode, ProvisionRequest{Target: "active"}); {
			case err == nil:
				taken.Add(1)
			case errors.Is(err, ErrLocked) || errors.Is(err, ErrState):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if taken.Load() != 1 || refused.Load() != 63 {
		t.Errorf("%d requests were taken and %d refused", taken.Load(), refused.Load())
	}
}

// TestAbort in each state that waits: the node leaves it, and is left off and
// unbound.
func TestConfigDriveFromImage(t *testing.T) {
	packed, err := makeISO(t.TempDir(), map[string][]byte{"openstack/latest/meta_data.json": []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.enroll(store.Available)
	w.provision("active", func(r *ProvisionRequest) { r.ConfigDrive = base64.StdEncoding.EncodeToString(packed) })
	w.wantState(w.settled(), store.Active)
	if _, drive := w.m.content(); string(drive) != base64.StdEncoding.EncodeToString(packed) {
		t.Error("the config drive on the disk is not the one that was given")
	}
}

func TestVIFs(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Available)
	ctx := t.Context()
	attach := func(id string) error { return w.AttachVIF(ctx, testNode, map[string]any{"id": id}) }
	if err := attach("v1"); err != nil {
		t.Fatal(err)
	}
	if err := attach("v1"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the same VIF again: %v", err)
	}
	if err := attach("v2"); !errors.Is(err, ErrInvalid) {
		t.Errorf("no free port: %v", err)
	}
	if got, err := w.VIFs(ctx, testNode); err != nil || !slices.Equal(got, []string{"v1"}) {
		t.Errorf("VIFs are %v (%v)", got, err)
	}
	w.provision("active")
	w.wantState(w.settled(), store.Active)
	if ports, err := w.ports(testNode); err != nil || ports[0].Network != tenantNet {
		t.Errorf("port is on network %q (%v)", ports[0].Network, err)
	}
	if err := w.DetachVIF(ctx, testNode, "v1"); err != nil {
		t.Fatal(err)
	}
	if err := w.DetachVIF(ctx, testNode, "v1"); !errors.Is(err, ErrInvalid) {
		t.Errorf("detached twice: %v", err)
	}
}

func TestBootDevice(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Available)
	ctx := t.Context()
	if err := w.SetBootDevice(ctx, testNode, bmc.Boot{Device: bmc.CDROM, Persistent: true}); err != nil {
		t.Fatal(err)
	}
	b, err := w.BootDevice(ctx, testNode)
	if err != nil || b.Device != bmc.CDROM || b.Mode != "uefi" || !b.Persistent {
		t.Errorf("boot device is %v (%v)", b, err)
	}
	if err := w.SetBootDevice(ctx, testNode, bmc.Boot{Device: "floppy"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("floppy: %v", err)
	}
	if n := w.get(); n.Reservation != nil {
		t.Errorf("the lock was kept: %+v", n.Reservation)
	}
}

func TestValidate(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Available)
	v, err := w.Validate(t.Context(), testNode)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"power", "management", "boot", "deploy", "network", "storage"} {
		if v[kind].Result == nil || !*v[kind].Result {
			t.Errorf("%s: %+v", kind, v[kind])
		}
	}
	if v["console"].Result != nil {
		t.Errorf("console: %+v", v["console"])
	}
	w.enroll(store.Available, func(n *store.Node) {
		n.DriverInfo, n.InstanceInfo, n.Properties = map[string]any{"bad": 1}, nil, map[string]any{"capabilities": "x"}
	})
	if v, err = w.Validate(t.Context(), testNode); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"power": "bad: must not", "boot": "not key:value", "deploy": "no image_source"} {
		if v[kind].Result == nil || *v[kind].Result || !strings.Contains(v[kind].Reason, want) {
			t.Errorf("%s: %+v", kind, v[kind])
		}
	}
}

func TestExplain(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	waiting := &store.Node{UUID: "u", Name: "n1", ProvisionState: store.DeployWait, ProvisionUpdatedAt: now.Add(-time.Minute)}
	run := &store.Run{
		ID: 7, Workflow: "deploy", Step: "await-agent", Started: now.Add(-time.Minute), WaitingFor: "the ramdisk's first heartbeat",
		Deadline: now.Add(time.Hour), Ramdisk: &store.RamdiskBoot{BootedAt: now.Add(-40 * time.Second)},
	}
	e := explain(waiting, run, sighting{}, now)
	if e.Doing != "deploy (run 7, begun 1m0s ago) is at step await-agent; started 40s ago, nothing seen of the node yet" {
		t.Errorf("doing: %s", e.Doing)
	}
	if e.WaitingFor != run.WaitingFor || e.Deadline != run.Deadline || !slices.Contains(e.Next, "give up: bessemer node abort n1") {
		t.Errorf("%+v", e)
	}
	e = explain(waiting, run, sighting{What: "DHCP DISCOVER", At: now.Add(-3 * time.Second)}, now)
	if !strings.HasSuffix(e.Doing, "last seen of the node: DHCP DISCOVER, 3s ago") {
		t.Errorf("doing: %s", e.Doing)
	}
	for _, r := range Machine {
		e := explain(&store.Node{UUID: "u", ProvisionState: r.State, Maintenance: true}, nil, sighting{}, now)
		if e.Doing == "" || r.Kind == Stable && r.State != store.Rescue && len(e.Next) < 2 {
			t.Errorf("%s: %+v", r.State, e)
		}
	}
}
