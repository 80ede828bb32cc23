package cli

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"bessemer/bmc/sim/rack"
	"bessemer/store"
)

// A demoWatch shows how far the machines are.
type demoWatch struct {
	d        *demo
	machines []*rack.Machine // all, those that are deployed first
	deploys  int
	begun    time.Time
	said     map[string]string // what was last said of a machine, without a terminal
	took     map[string]time.Duration
	since    map[string]stretch
	rows     []demoRow
}

// A stretch is what a machine is at, and since when.
type stretch struct {
	doing string
	begun time.Time
}

func newDemoWatch(d *demo, deployed []*rack.Machine) *demoWatch {
	return &demoWatch{
		d: d, machines: d.rack.Machines(), deploys: len(deployed), begun: time.Now(),
		said: map[string]string{}, took: map[string]time.Duration{}, since: map[string]stretch{},
	}
}

// Times between two looks: for people, and for a file.
const (
	frame     = 125 * time.Millisecond
	plainLook = 250 * time.Millisecond
)

// watch looks until every deploy has ended, or ctx ends. asked yields once
// whether all could be begun.
func (w *demoWatch) watch(ctx context.Context, asked <-chan error) error {
	if w.d.exit {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.d.limit)
		defer cancel()
	}
	pause := plainLook
	if w.d.display.live() {
		pause = frame
	}
	for {
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		w.show()
		switch active, failed := w.ended(); {
		case active == w.deploys:
			return nil
		case active+failed == w.deploys:
			return fmt.Errorf("%s of %d failed; see: %s node explain %s", count(failed, "deploy"), w.deploys, w.d.command(), w.firstFailed())
		}
		select {
		case err := <-asked:
			if err != nil {
				return err
			}
			asked = nil
		case <-ctx.Done():
			return w.interrupted(ctx)
		case <-time.After(pause):
		}
	}
}

func (w *demoWatch) interrupted(ctx context.Context) error {
	if w.d.exit && ctx.Err() == context.DeadlineExceeded {
		active, _ := w.ended()
		return fmt.Errorf("%w after %v: %d of %d are active", errTimeout, w.d.limit, active, w.deploys)
	}
	return ctx.Err()
}

// look reads what there is to show, from the API as any client does; what
// becomes of a machine when nobody manages it is the rack's to tell.
func (w *demoWatch) look(ctx context.Context) error {
	nodes, err := enroller{cl: w.d.cl}.known(ctx)
	if err != nil {
		return err
	}
	var open struct{ Runs []store.Run }
	if err := w.d.cl.Get(ctx, "/api/v1/runs?outcome=running&limit=1000", &open); err != nil {
		return err
	}
	runs := map[string]*store.Run{}
	for i := range open.Runs {
		runs[open.Runs[i].Node] = &open.Runs[i]
	}
	w.rows = w.rows[:0]
	for i, m := range w.machines {
		n := nodes[m.Name()]
		if n == nil {
			return fmt.Errorf("node %s is gone", m.Name())
		}
		w.rows = append(w.rows, w.row(i < w.deploys, m, n, runs[n.UUID]))
	}
	return nil
}

// row is what to show of one machine.
func (w *demoWatch) row(deploys bool, m *rack.Machine, n *nodeNow, run *store.Run) demoRow {
	st := m.Status()
	kind, _, _ := strings.Cut(st.BMC, "://")
	r := demoRow{
		Name: n.Name, Model: m.Spec().Model, State: n.State, Share: -1,
		BMC: map[bool]string{true: "ipmi", false: "redfish"}[kind == "ipmi"],
	}
	if !deploys {
		return r
	}
	var next float64
	r.Share, next, r.Doing = deployShare(n.State, run, st)
	r.Share = w.creep(r.Name, r.Doing, r.Share, next)
	if settled(r) && w.took[r.Name] == 0 {
		w.took[r.Name] = time.Since(w.begun)
	}
	if r.Took = w.took[r.Name]; r.Took == 0 {
		r.Took = time.Since(w.begun)
	}
	if r.State != "active" && settled(r) {
		r.Doing = n.LastError
	}
	return r
}

// settled reports whether nothing more is to come.
func settled(r demoRow) bool {
	return r.State == "active" && r.Share == 1 || strings.HasSuffix(r.State, "failed") || r.State == "error"
}

// A mark is how much of a deploy is behind it when something begins, as people
// feel it.
type milestone struct {
	step  string     // of the workflow
	stage rack.Stage // of the machine, while the step waits for it
	share float64
	text  string // "": the step's name
}

// milestones are in the order in which a deploy passes them.
var milestones = []milestone{
	{step: "validate", share: 0.01},
	{step: "store-configdrive", share: 0.02},
	{step: "power-off", share: 0.03},
	{step: "attach-provisioning-net", share: 0.04},
	{step: "set-ramdisk-dhcp", share: 0.05},
	{step: "set-boot-device-pxe", share: 0.06},
	{step: "cache-images", share: 0.07},
	{step: "reboot", share: 0.08},
	{step: "await-agent", share: 0.11},
	{step: "await-agent", stage: rack.StageOff, share: 0.11, text: "powers on"},
	{step: "await-agent", stage: rack.StagePOST, share: 0.13, text: "POST"},
	{step: "await-agent", stage: rack.StageDHCP, share: 0.33, text: "network boot"},
	{step: "await-agent", stage: rack.StageKernel, share: 0.40, text: "ramdisk starts"},
	{step: "await-agent", stage: rack.StageAgent, share: 0.46, text: "agent runs"},
	{step: "get-deploy-steps", share: 0.49},
	{step: "write-image", share: 0.50},
	{step: "install-bootloader", share: 0.60},
	{step: "set-instance-dhcp", share: 0.61},
	{step: "set-boot-device-disk", share: 0.62},
	{step: "collect-logs", share: 0.63},
	{step: "sync-disks", share: 0.64},
	{step: "power-off-ramdisk", share: 0.65},
	{step: "detach-provisioning-net", share: 0.68},
	{step: "bind-tenant-net", share: 0.69},
	{step: "power-on", share: 0.70},
	{step: "mark-active", share: 0.73},
}

const diskShare = 0.74 // when the machine starts from its disk

// deployShare is how far a deploy is, where its next milestone is, and what goes
// on. It is all done when the machine has booted its disk and told who it is.
func deployShare(state string, run *store.Run, st rack.Status) (share, next float64, doing string) {
	switch {
	case state == "active" && st.Stage == rack.StageRunning && st.Hostname != "":
		return 1, 1, st.Hostname + " is up"
	case state == "active":
		return diskShare, 1, "boots its disk"
	case run == nil:
		return 0, 0, ""
	}
	doing = strings.ReplaceAll(run.Step, "-", " ")
	for i, m := range milestones {
		if m.step != run.Step || m.stage != "" && m.stage != st.Stage {
			continue
		}
		share, next = m.share, diskShare
		if m.text != "" {
			doing = m.text
		}
		if i+1 < len(milestones) {
			next = milestones[i+1].share
		}
	}
	if g := run.Progress; g != nil && g.Total > 0 {
		share += (next - share) * min(1, float64(g.Done)/float64(g.Total))
	}
	return share, next, doing
}

// creep moves the share towards the next milestone while nothing is told of the
// way there: fast at first, and never all of it.
func (w *demoWatch) creep(name, doing string, share, next float64) float64 {
	s := w.since[name]
	if s.doing != doing {
		s = stretch{doing, time.Now()}
		w.since[name] = s
	}
	const pace = 2 * time.Second
	return share + (next-share)*0.9*(1-math.Exp(-float64(time.Since(s.begun))/float64(pace)))
}

// ended counts the deploys that are over.
func (w *demoWatch) ended() (active, failed int) {
	for _, r := range w.rows {
		switch {
		case r.Share < 0 || !settled(r):
		case r.State == "active":
			active++
		default:
			failed++
		}
	}
	return active, failed
}

func (w *demoWatch) firstFailed() string {
	for _, r := range w.rows {
		if r.Share >= 0 && r.State != "active" {
			return r.Name
		}
	}
	return ""
}

// show draws the table, or says what is new.
func (w *demoWatch) show() {
	active, failed := w.ended()
	line := fmt.Sprintf("%d of %d active after %s", active, w.deploys, tookText(time.Since(w.begun)))
	if failed > 0 {
		line += fmt.Sprintf(", %d failed", failed)
	}
	s := w.d.display
	if s.live() {
		width, height := s.size()
		s.draw(append(demoTable(s.look, w.rows, width-1, height-4), "", "  "+s.look.paint(bold, line)))
		return
	}
	for _, r := range w.rows {
		if r.Share < 0 || w.said[r.Name] == phase(r) {
			continue
		}
		w.said[r.Name] = phase(r)
		s.say("%9s  %s  %-14s  %s", tookText(time.Since(w.begun)), r.Name, r.State, phase(r))
	}
}

// phase is a row in words that change only some times a deploy.
func phase(r demoRow) string {
	switch {
	case settled(r):
		return r.Doing
	case r.Share >= 0.70:
		return "boots its disk"
	case r.Share >= 0.50:
		return "writes the image"
	case r.Share >= 0.11:
		return "boots the ramdisk"
	}
	return "powers on"
}

// command is how this program is called for the demo's appliance.
func (d *demo) command() string { return os.Args[0] + " --url " + d.cl.Base }

// summary says what came of it, and what to do next.
func (d *demo) summary(w *demoWatch) {
	d.display.keep()
	var hosts []string
	for _, r := range w.rows {
		if r.Share >= 0 {
			hosts = append(hosts, strings.TrimSuffix(r.Doing, " is up"))
		}
	}
	l := d.display.look
	d.display.say("\n%s", l.paint(bold, fmt.Sprintf("%d ACTIVE in %s.", len(hosts), tookText(time.Since(w.begun)))))
	const most = 12
	more := ""
	if len(hosts) > most {
		more = fmt.Sprintf(" and %d more", len(hosts)-most)
		hosts = hosts[:most]
	}
	d.display.say("Each booted what was written to its disk, and phoned home: %s%s.", strings.Join(hosts, ", "), more)
	if d.exit {
		return
	}
	d.display.say("\nTry next, in another terminal:\n")
	for _, next := range []string{"node list", "node trace " + w.rows[0].Name, "node undeploy " + w.rows[0].Name + " --wait --yes"} {
		d.display.say("  %s", l.paint(cyan, d.command()+" "+next))
	}
	d.display.say("")
}
