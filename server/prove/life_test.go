package prove

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"bessemer/bmc/sim/rack"
	"bessemer/store"
)

func newReader(b []byte) io.ReadSeeker { return bytes.NewReader(b) }

// A task is one workflow that a node is taken through.
type task struct {
	name string
	// path and body are the request; want is the state it leads to, or states
	// when faults may make it fail.
	path  string
	body  map[string]any
	want  string
	fails string // where it ends when it has failed
	power string // the machine's power then, "" for any
	wrong bool   // the image has another checksum
	boots bool   // the deployed system must come up
}

func provision(target string) map[string]any { return map[string]any{"target": target} }

// life is what a node goes through from its enrollment on.
var life = []task{
	{name: "verify", path: "provision", body: provision("manage"), want: "manageable", fails: "enroll"},
	{name: "clean", path: "provision", body: provision("provide"), want: "available", fails: "clean failed"},
	{name: "deploy", path: "provision", body: map[string]any{
		"target": "active", "configdrive": map[string]any{"meta_data": map[string]any{"hostname": "prove"}},
	}, want: "active", fails: "deploy failed", power: "power on", boots: true},
	{name: "power off", path: "power", body: provision("power off"), want: "active", fails: "active", power: "power off"},
	{name: "power on", path: "power", body: provision("power on"), want: "active", fails: "active", power: "power on", boots: true},
	{name: "reboot", path: "power", body: provision("rebooting"), want: "active", fails: "active", power: "power on", boots: true},
	{name: "rebuild", path: "provision", body: provision("rebuild"), want: "active", fails: "deploy failed", power: "power on", boots: true},
	{name: "undeploy", path: "provision", body: provision("deleted"), want: "available", fails: "clean failed"},
	{name: "failing deploy", path: "provision", body: provision("active"), want: "deploy failed", fails: "deploy failed", wrong: true},
	{name: "undeploy failed", path: "provision", body: provision("deleted"), want: "available", fails: "clean failed"},
	{name: "manage", path: "provision", body: provision("manage"), want: "manageable", fails: "available"},
	{name: "manual clean", path: "provision", body: map[string]any{"target": "clean", "clean_steps": []map[string]any{
		{"interface": "deploy", "step": "erase_devices_metadata"},
	}}, want: "manageable", fails: "clean failed"},
}

// A run is what the appliance tells of one.
type run struct {
	ID       uint64    `json:"id"`
	Workflow string    `json:"workflow"`
	Outcome  string    `json:"outcome"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended"`
	Error    string    `json:"error"`
}

// lastRun returns a node's newest run; the zero run when it has none.
func (s *site) lastRun(uuid string) (last run) {
	s.t.Helper()
	var list struct {
		Runs []run `json:"runs"`
	}
	s.get("/api/v1/runs?limit=20&node="+uuid, &list)
	for _, r := range list.Runs {
		if r.ID > last.ID {
			last = r
		}
	}
	return last
}

// ask requests a change of state once and for all: a request whose outcome is
// not known is looked for before it is sent again. It returns the number of
// the node's last run before, and whether there was anything to be done.
func (s *site) ask(uuid string, task task) (before uint64) {
	s.t.Helper()
	before = s.lastRun(uuid).ID
	was := s.node(uuid).State
	path := "/v1/nodes/" + uuid + "/states/" + task.path
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		r := s.once(s.t.Context(), http.MethodPut, path, task.body)
		if r.ok() {
			if task.name != "manage" && s.lastRun(uuid).ID == before {
				s.v.violated("%s of %s was acknowledged and is lost", task.name, uuid)
			}
			return before
		}
		if s.lastRun(uuid).ID > before || task.name == "manage" && s.node(uuid).State != was {
			return before // carried out, and nobody told us
		}
		if r.status/100 == 4 && r.status != http.StatusConflict {
			s.t.Fatalf("%s of %s in state %s: %s", task.name, uuid, was, r)
		}
	}
	s.t.Fatalf("%s of %s is not taken up", task.name, uuid)
	return 0
}

// settle waits until nothing is done on a node any more.
func (s *site) settle(uuid string) (n node) {
	s.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if n = s.node(uuid); n.Reserved == "" && !passing(n.State) {
			return n
		}
	}
	s.v.violated("node %s never comes to rest: it is %q (%s), %+v\n%s", n.Name, n.State, n.Error, s.lastRun(uuid), describe(s.machineOf(n.Name)))
	s.t.FailNow()
	return n
}

// passing says whether a state is one that a run must bring a node out of.
func passing(state string) bool {
	return strings.HasSuffix(state, "ing") || strings.Contains(state, "wait")
}

// live takes a node through a task, and holds what comes of it to the goal.
// may is set when it may fail, as long as it says so.
func (s *site) live(m *rack.Machine, uuid string, task task, may bool) (n node, reached bool) {
	s.t.Helper()
	if task.wrong {
		s.setInstance(uuid, s.wrong)
	} else if task.name == "deploy" {
		s.setInstance(uuid, s.sum)
	}
	since := time.Now()
	before := s.ask(uuid, task)
	n = s.settle(uuid)
	last := s.lastRun(uuid)
	switch {
	case n.State == task.want && (last.Outcome != string(store.Failed) || task.wrong):
	case may && n.State == task.fails && n.Error != "":
		return n, false
	case may && last.Outcome == string(store.Failed) && last.Error != "":
		return n, false
	default:
		s.v.violated("%s of %s ended %q (%q, %s), not %q\n%s", task.name, n.Name, n.State, n.Error, last.Outcome, task.want, describe(m))
		return n, false
	}
	if task.name != "manage" && last.ID <= before {
		s.v.violated("%s of %s has left no run", task.name, n.Name)
	}
	if task.power != "" && (n.Power != task.power || string(m.PowerState()) != task.power) {
		s.v.violated("%s of %s left the node %s, and the machine %s, not %s", task.name, n.Name, n.Power, m.PowerState(), task.power)
	}
	if task.boots {
		s.awaitHome(m, n, since)
	}
	return n, true
}

// awaitHome waits until the deployed system runs and has told who it is.
func (s *site) awaitHome(m *rack.Machine, n node, since time.Time) {
	s.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		events, err := m.Journal()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range events {
			if e.Kind == rack.Home && e.Time.After(since) {
				return
			}
		}
	}
	s.v.violated("%s is %s, and its system does not come up:\n%s", n.Name, n.State, describe(m))
}

func (t task) String() string { return fmt.Sprint(t.name) }
