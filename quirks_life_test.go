package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"bessemer/bmc/sim/flaw"
	"bessemer/bmc/sim/rack"
	"bessemer/bmc/sim/tinyos"
)

// A trial is a machine with something wrong about it, and what comes of its
// life: enroll, manage, provide with cleaning, deploy with a config drive,
// undeploy with cleaning.
type trial struct {
	name    string // "": the quirks, and the protocol
	quirks  []flaw.ID
	fault   string // injected as the deploy begins
	ipmi    bool
	profile string         // "": tiny
	mode    string         // boot mode; "": the profile's
	image   string         // "": tinyGPT
	hint    bool           // the root disk is named by its serial number
	info    map[string]any // driver_info to change; nil values to leave out
	late    bool           // the quirks are turned on as the deploy begins, and off when it is over
	also    []string       // disks that a deploy may write to beside the root disk

	more  uint64   // starts beyond the four of a life without trouble
	ends  string   // provision state in which it comes to rest, if it does not go all the way
	says  []string // words of last_error then
	stays bool     // in that state it cannot be undeployed
}

// Starts of a life without trouble: two cleanings, the deploy and the system.
// On a host that is too busy a machine may be given up and started again; one
// that is started over and over needs more than that.
const (
	plainStarts = 4
	busyStarts  = 2
)

// lifetime is how long a life may take; nothing is asserted by it but that the
// life ends.
const lifetime = 5 * time.Minute

// A life is a trial that goes on.
type life struct {
	*site
	trial
	m     *rack.Machine
	steps string // what has been reached, for errors
	took  time.Duration
}

// An apiNode is what the API shows of a node.
type apiNode struct {
	State string // provision state
	Power string
	Error string
}

// live takes a machine through its life. The error says where it went wrong.
func (l *life) live(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lifetime)
	defer cancel()
	l.m.Turn(!l.late, l.quirks...)
	if err := l.enroll(ctx); err != nil {
		return err
	}
	for _, step := range []struct{ verb, want string }{{"manage", "manageable"}, {"provide", "available"}} {
		if ended, err := l.step(ctx, step.verb, step.want, nil); ended || err != nil {
			return err
		}
	}
	if ended, err := l.deploy(ctx); ended || err != nil {
		return err
	}
	if _, err := l.step(ctx, "deleted", "available", nil); err != nil {
		return err
	}
	return l.checkEnd()
}

func (l *life) enroll(ctx context.Context) error {
	e := l.m.Enrollment()
	for k, v := range l.info {
		if e.DriverInfo[k] = v; v == nil {
			delete(e.DriverInfo, k)
		}
	}
	if l.mode != "" {
		e.Properties["capabilities"] = "boot_mode:" + l.mode
	}
	if l.hint {
		e.Properties["root_device"] = map[string]any{"serial": l.m.Spec().Disks[0].Serial}
	}
	var made struct {
		UUID string `json:"uuid"`
	}
	err := l.cl.Call(ctx, http.MethodPost, "/v1/nodes", map[string]any{
		"name": e.Name, "driver": e.Driver, "driver_info": e.DriverInfo, "properties": e.Properties,
	}, &made)
	for _, mac := range e.MACs {
		if err == nil {
			err = l.cl.Call(ctx, http.MethodPost, "/v1/ports", map[string]any{"node_uuid": made.UUID, "address": mac}, nil)
		}
	}
	if err != nil {
		return fmt.Errorf("enroll: %w", err)
	}
	return nil
}

// step asks for a change of state and waits until the node comes to rest. It
// has ended when that is where the trial says.
func (l *life) step(ctx context.Context, verb, want string, more map[string]any) (ended bool, err error) {
	n, err := l.provision(ctx, verb, more)
	switch {
	case err != nil:
		return false, err
	case n.State == want && n.Error != "":
		return false, fmt.Errorf("it is %s, with the error %q", want, n.Error)
	case n.State == want:
		return false, nil
	case n.State != l.ends:
		return false, fmt.Errorf("%s: it is %q, not %q: %s", verb, n.State, want, n.Error)
	}
	for _, words := range l.says {
		if !strings.Contains(n.Error, words) {
			return true, fmt.Errorf("%s: it is %q as it should be, but says %q, which lacks %q", verb, n.State, n.Error, words)
		}
	}
	l.steps += fmt.Sprintf(" %q: %s", n.State, n.Error)
	l.ends = "" // it goes on from here
	return true, nil
}

func (l *life) provision(ctx context.Context, verb string, more map[string]any) (n apiNode, err error) {
	body := map[string]any{"target": verb}
	maps.Copy(body, more)
	if err := l.cl.Call(ctx, http.MethodPut, "/v1/nodes/"+l.m.Name()+"/states/provision", body, nil); err != nil {
		return n, fmt.Errorf("%s: %w", verb, err)
	}
	shown, err := l.cl.WaitState(ctx, l.m.Name(), atRest, nil)
	if err != nil {
		return n, fmt.Errorf("%s: it stays %v (%v): %w", verb, shown["provision_state"], shown["last_error"], err)
	}
	n.State, _ = shown["provision_state"].(string)
	n.Power, _ = shown["power_state"].(string)
	n.Error, _ = shown["last_error"].(string)
	l.steps += " " + n.State
	return n, nil
}

// atRest reports whether nothing is done on a node.
func atRest(n map[string]any) bool {
	state, _ := n["provision_state"].(string)
	return n["reservation"] == nil && !strings.HasSuffix(state, "ing") && !strings.Contains(state, "wait")
}

func (l *life) host() string { return "host-" + l.m.Name() }

// deploy deploys the machine. It has ended when the deploy has failed as it
// should, and the failed node was undeployed.
func (l *life) deploy(ctx context.Context) (ended bool, err error) {
	image := l.image
	if image == "" {
		image = tinyGPT
	}
	if err := l.cl.Call(ctx, http.MethodPatch, "/v1/nodes/"+l.m.Name(), []map[string]any{
		{"op": "add", "path": "/instance_info", "value": map[string]any{"image_source": image}},
	}, nil); err != nil {
		return false, fmt.Errorf("name the image: %w", err)
	}
	if l.fault != "" {
		f, err := flaw.ParseFault(l.fault)
		if err != nil {
			return false, err
		}
		l.m.Flaws().Inject(f)
	}
	if l.late {
		l.m.Turn(true, l.quirks...)
		defer l.m.Turn(false, l.quirks...)
	}
	before := l.m.Status().Totals.Events
	ended, err = l.step(ctx, "active", "active", map[string]any{"configdrive": map[string]any{
		"meta_data": map[string]any{"hostname": l.host()}, "user_data": "#!/bin/sh\ntrue\n",
	}})
	l.m.Flaws().Heal()
	if err != nil || ended && l.stays {
		return ended, err
	}
	if !ended {
		return false, l.checkDeployed(ctx, before)
	}
	_, err = l.step(ctx, "deleted", "available", nil)
	return true, err
}

// checkDeployed waits until the deployed system runs, and looks at what was
// written.
func (l *life) checkDeployed(ctx context.Context, since uint64) error {
	for {
		events, err := l.m.Journal()
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Seq <= since || e.Kind != rack.Home {
				continue
			}
			if e.Hostname != l.host() {
				return fmt.Errorf("the system that runs calls itself %q, not %q", e.Hostname, l.host())
			}
			return l.checkDisks(events, since)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is active, and its system does not come up: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// checkDisks holds the machine's own journal and disks to only one having been
// deployed to: the right one.
func (l *life) checkDisks(events []rack.Event, since uint64) error {
	wrote := map[string]bool{}
	for _, e := range events {
		if e.Seq > since && e.Kind == rack.Write && !slices.Contains(l.also, e.Disk) {
			wrote[e.Disk] = true
		}
	}
	if len(wrote) != 1 {
		return fmt.Errorf("the deploy wrote to %v, not to one disk", slices.Sorted(maps.Keys(wrote)))
	}
	root := l.rootDisk()
	for i, d := range l.m.Spec().Disks {
		has, err := hasSystem(d.Path)
		if err != nil {
			return err
		}
		if has != (i == root) {
			return fmt.Errorf("%s (%s) has the system: %v; disk %d is the root disk", d.Name, d.Serial, has, root)
		}
	}
	return nil
}

// rootDisk is which disk is to be deployed to: the one that is named, else the
// smallest, the first of several.
func (l *life) rootDisk() (root int) {
	disks := l.m.Spec().Disks
	for i, d := range disks {
		if !l.hint && d.Size < disks[root].Size {
			root = i
		}
	}
	return root
}

// systemAt is where the tiny system's own partition begins, with systemMagic.
const systemAt = 512 << 10

var systemMagic = tinyos.Image()[systemAt : systemAt+8]

func hasSystem(path string) (bool, error) {
	head, err := readAt(path, systemAt, len(systemMagic))
	return bytes.Equal(head, systemMagic), err
}

func readAt(path string, off int64, n int) ([]byte, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil // nothing was ever written
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, off); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}

// checkEnd looks at a machine that is available again.
func (l *life) checkEnd() error {
	st := l.m.Status()
	if want := plainStarts + busyStarts + l.more; st.Totals.Starts > want {
		return fmt.Errorf("it was started %d times, which is more than %d", st.Totals.Starts, want)
	}
	for _, d := range l.m.Spec().Disks {
		if b, err := readAt(d.Path, 510, 2); err != nil || bytes.Equal(b, []byte{0x55, 0xaa}) {
			return fmt.Errorf("%s was not cleaned: %v", d.Name, err)
		}
	}
	return nil
}
