package prove

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"bessemer/bmc/sim/rack"
)

// settleWithin is how long the machines have, after the last restart of a kill
// storm, to come to rest.
const settleWithin = time.Minute

// TestKillStorm is CR-3: many machines are deployed and undeployed all the
// time while the appliance is killed at random. After the last restart all of
// them must come to rest within a minute, where their last request led to or
// in a clear failure, and their journals must agree with ours.
func TestKillStorm(t *testing.T) {
	v := prove(t, "CR-3 kill storm")
	period := *proveFor
	if period == 0 {
		period = scale(4*time.Second, 2*time.Minute)
	}
	machines := scale(12, 100)
	s := newSite(t, v, machines, "tiny", 0.01, order{}, "BESSEMER_CONDUCTOR_BOOT_TIMEOUT=10s")
	s.addImage()
	storm := &storm{site: s, until: time.Now().Add(period)}
	var drivers sync.WaitGroup
	for i, m := range s.rack.Machines() {
		dice := rand.New(rand.NewPCG(v.Seed, uint64(i)))
		drivers.Go(func() { storm.drive(m, dice) })
	}
	kills := 0
	for time.Now().Before(storm.until) {
		time.Sleep(time.Duration(200+v.roll(scale(1800, 8000))) * time.Millisecond)
		if s.kill() {
			kills++
		}
	}
	s.await()
	last := time.Now()
	drivers.Wait()
	settled := storm.settleAll(last)
	v.count(storm.requests, kills, kills)
	v.Note = fmt.Sprintf("%d machines, %v; at rest %.1f s after the last restart; %d runs ended in a clear failure",
		machines, period, settled.Seconds(), storm.failures)
	s.stop()
	s.judge()
}

// A storm is what goes on meanwhile.
type storm struct {
	*site
	until time.Time

	mu       sync.Mutex
	requests int
	failures int
	uuids    []string
}

// drive takes a machine through deploy and undeploy until the time is over.
func (s *storm) drive(m *rack.Machine, dice *rand.Rand) {
	uuid, ok := s.tryEnroll(m)
	if !ok {
		return
	}
	for time.Now().Before(s.until) {
		time.Sleep(time.Duration(50+dice.IntN(200)) * time.Millisecond)
		var n node
		if r := s.once(s.t.Context(), http.MethodGet, "/v1/nodes/"+uuid, nil); r.into(&n) != nil {
			continue // it starts again
		}
		if n.Reserved != "" || passing(n.State) && dice.IntN(100) > 0 {
			continue
		}
		if n.Error != "" {
			s.note(0, 1)
		}
		s.step(uuid, n, dice)
	}
}

// step asks for what may be asked of a node in its state. Requests whose answer
// is lost are not looked after: the next look at the node says what became of
// them.
func (s *storm) step(uuid string, n node, dice *rand.Rand) {
	if n.Maintenance {
		s.once(s.t.Context(), http.MethodDelete, "/v1/nodes/"+uuid+"/maintenance", nil)
	}
	verbs := map[string][]string{
		"enroll": {"manage"}, "manageable": {"provide"}, "available": {"active"}, "clean failed": {"manage"},
		"active": {"deleted", "deleted", "rebuild", "power"}, "deploy failed": {"active", "deleted"},
		"wait call-back": {"abort", "deleted"}, "clean wait": {"abort"},
	}[n.State]
	if len(verbs) == 0 {
		return
	}
	verb := verbs[dice.IntN(len(verbs))]
	what, body := "provision", map[string]any{"target": verb}
	switch verb {
	case "active":
		s.once(s.t.Context(), http.MethodPatch, "/v1/nodes/"+uuid, set("/instance_info", s.instance(s.sum)))
	case "power":
		what, body = "power", map[string]any{"target": "rebooting"}
	}
	r := s.once(s.t.Context(), http.MethodPut, "/v1/nodes/"+uuid+"/states/"+what, body)
	if r.ok() {
		s.note(1, 0)
		s.acknowledged(uuid, n)
	}
}

// acknowledged holds that a request that was taken up has left something. The
// appliance may have been killed since.
func (s *storm) acknowledged(uuid string, was node) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var n node
		if s.once(s.t.Context(), http.MethodGet, "/v1/nodes/"+uuid, nil).into(&n) != nil {
			continue
		}
		var list struct {
			Runs []run `json:"runs"`
		}
		if s.once(s.t.Context(), http.MethodGet, "/api/v1/runs?limit=5&node="+uuid, nil).into(&list) != nil {
			continue
		}
		if n.State == was.State && n.Reserved == "" && len(list.Runs) == 0 {
			s.v.violated("%s is still %s, without a run, after a request that was acknowledged", n.Name, n.State)
		}
		return
	}
}

func (s *storm) note(requests, failures int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.failures = s.requests+requests, s.failures+failures
}

// tryEnroll is enroll beside kills; it gives up when the time is over.
func (s *storm) tryEnroll(m *rack.Machine) (uuid string, ok bool) {
	e := m.Enrollment()
	for time.Now().Before(s.until) {
		var n node
		if s.once(s.t.Context(), http.MethodGet, "/v1/nodes/"+e.Name, nil).into(&n) != nil {
			s.once(s.t.Context(), http.MethodPost, "/v1/nodes", map[string]any{
				"name": e.Name, "driver": e.Driver, "driver_info": e.DriverInfo, "properties": e.Properties,
			})
			time.Sleep(20 * time.Millisecond)
			continue
		}
		r := s.once(s.t.Context(), http.MethodPost, "/v1/ports", map[string]any{"node_uuid": n.UUID, "address": e.MACs[0], "pxe_enabled": true})
		if r.ok() || r.status == http.StatusConflict {
			s.mu.Lock()
			s.uuids = append(s.uuids, n.UUID)
			s.mu.Unlock()
			return n.UUID, true
		}
	}
	return "", false
}

// settleAll waits until all nodes are at rest, and holds that to the promise.
// It returns how long after the last restart the last one was.
func (s *storm) settleAll(last time.Time) time.Duration {
	s.t.Helper()
	for _, uuid := range s.uuids {
		n := s.settle(uuid)
		if strings.HasSuffix(n.State, "failed") && n.Error == "" {
			s.v.violated("%s is %s, and nothing says why", n.Name, n.State)
		}
		if n.State == "active" && n.Power != string(s.machineOf(n.Name).PowerState()) {
			s.v.violated("%s is recorded as %s, and is %s", n.Name, n.Power, s.machineOf(n.Name).PowerState())
		}
	}
	took := time.Since(last)
	if took > settleWithin {
		s.v.violated("the last node came to rest %v after the last restart, which is more than %v", took, settleWithin)
	}
	return took
}
