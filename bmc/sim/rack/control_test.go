package rack

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bessemer/bmc"
	"bessemer/bmc/sim/flaw"
)

// controlled opens a rack of two machines with its control.
func controlled(t *testing.T) (*Rack, *Client) {
	r := newRack(t, nil, func(o *Options) { o.Wire, o.Machines = deaf{}, 2 })
	path := filepath.Join(r.opts.Dir, "sock")
	must(t, os.WriteFile(path+"2", nil, 0o600))
	if _, err := Listen(path + "2"); err == nil {
		t.Error("a file that is no socket was replaced")
	}
	ln, err := Listen(path)
	must(t, err)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is %v, %v", st.Mode(), err)
	}
	s := &http.Server{Handler: Handler(r)}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { s.Close() })
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another rack answers") {
		t.Errorf("a socket that answers was replaced: %v", err)
	}
	return r, NewClient(path)
}

func TestControl(t *testing.T) {
	t.Parallel()
	r, c := controlled(t)
	ctx := t.Context()
	got, err := c.Inject(ctx, "all", flaw.Fault{Kind: flaw.BMC500, Count: 3}, flaw.Fault{Kind: flaw.NoPOST})
	if err != nil || len(got) != 2 || len(got["sim-002"]) != 2 {
		t.Errorf("inject: %v, %v", got, err)
	}
	must(t, c.Heal(ctx, "sim-001", flaw.BMC500))
	if fs := r.Machine("sim-001").Flaws().Faults(); len(fs) != 1 || fs[0].Kind != flaw.NoPOST {
		t.Errorf("healed of one: %v", fs)
	}
	must(t, c.Heal(ctx, "all"))
	if fs := r.Machine("sim-002").Flaws().Faults(); len(fs) != 0 {
		t.Errorf("healed of all: %v", fs)
	}
	if ids, err := c.Turn(ctx, "sim-001", []flaw.ID{"B-08", "B-13"}, []flaw.ID{"B-08"}); err != nil || len(ids["sim-001"]) != 1 {
		t.Errorf("quirks %v, %v", ids, err)
	}
	added, err := c.Add(ctx, 2, "intel-s2600")
	if err != nil || len(added) != 2 || added[0].Name != "sim-003" || added[0].Driver != "ipmi" {
		t.Errorf("add: %+v, %v", added, err)
	}
	if info, err := driver(t, r.Machine("sim-004")).Identify(ctx); err != nil || info.SystemUUID != r.Machine("sim-004").Spec().UUID {
		t.Errorf("the controller of an added machine: %+v, %v", info, err)
	}
	by, err := c.Enrollments(ctx, "all")
	if err != nil || len(by) != 4 || by["sim-001"].DriverInfo["redfish_address"] != r.Machine("sim-001").bmc.url() {
		t.Errorf("enrollments %v, %v", by, err)
	}
	must(t, c.Power(ctx, "all", bmc.On))
	statuses, err := c.Status(ctx)
	if err != nil || len(statuses) != 4 || statuses[3].Totals.Power[ByHand] != 1 {
		t.Errorf("status %+v, %v", statuses, err)
	}
}

func TestControlRefuses(t *testing.T) {
	t.Parallel()
	r, c := controlled(t)
	ctx := t.Context()
	for what, do := range map[string]func() error{
		`no such machine: "sim-999"`:     func() error { _, err := c.Journal(ctx, "sim-999"); return err },
		"no such kind":                   func() error { _, err := c.Inject(ctx, "sim-001", flaw.Fault{Kind: "rust"}); return err },
		`"B-99" has no flag`:             func() error { _, err := c.Turn(ctx, "sim-001", []flaw.ID{"B-99"}, nil); return err },
		`profile "cray" is unknown`:      func() error { _, err := c.Add(ctx, 1, "cray"); return err },
		"count 0 is below 1":             func() error { _, err := c.Add(ctx, 0, ""); return err },
		"sim-002: reset: machine is off": func() error { return c.Power(ctx, "all", bmc.Reset) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q", err, what)
		}
	}
	if len(r.Machines()) != 2 {
		t.Errorf("%d machines", len(r.Machines()))
	}
}
