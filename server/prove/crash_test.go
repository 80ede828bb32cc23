package prove

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestKilledAtEveryPoint is CR-1: it takes a machine through every workflow
// and kills the appliance, as kill -9 does, at each point of each step: before
// the step, when its effect has happened, when it is in the journal, and while
// the next start takes the run up again. Each workflow must reach its goal all
// the same, and the machine's own journal must show nothing that ours does not
// explain.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	v := prove(t, "CR-1 kills")
	o := order{Die: []string{"every"}, Share: scale[uint64](8, 0)}
	s := newSite(t, v, 1, "supermicro-1029p", 0.002, o)
	m := s.rack.Machines()[0]
	uuid := s.begin(m)
	for _, task := range life {
		begun := time.Now()
		before, _ := s.died()
		s.live(m, uuid, task, false)
		deaths, _ := s.died()
		v.count(1, deaths-before, deaths-before)
		t.Logf("%-16s %3d kills, %v", task.name, deaths-before, time.Since(begun).Round(time.Millisecond))
	}
	passed := linesOf(s.points)
	v.Note = fmt.Sprintf("%d points of %d workflows", len(passed), len(life))
	s.stop()
	s.judge()
}

// TestKilledOnce is the rest of CR-1: each point dies alone, so that one
// kill's consequences are not mended by the next one's restart.
func TestKilledOnce(t *testing.T) {
	if !*long {
		t.Skip("only with -prove: it takes some minutes")
	}
	t.Parallel()
	v := prove(t, "CR-1 single kills")
	s := newSite(t, v, 1, "supermicro-1029p", 0.002, order{})
	m := s.rack.Machines()[0]
	uuid := s.begin(m)
	byTask := map[string][]string{}
	most := 0
	for _, task := range life {
		had := linesOf(s.points)
		s.live(m, uuid, task, false)
		for at := range linesOf(s.points) {
			if !had[at] {
				byTask[task.name] = append(byTask[task.name], at)
			}
		}
		most = max(most, len(byTask[task.name]))
	}
	for round := range most {
		var die []string
		for _, points := range byTask {
			if round < len(points) {
				at := points[round]
				die = append(die, at, strings.Fields(at)[0]+" resume")
			}
		}
		s.again(order{Points: s.points + fmt.Sprint(round), Die: die})
		if round == 0 {
			s.back(uuid)
		}
		for _, task := range life[1:] {
			before, _ := s.died()
			s.live(m, uuid, task, false)
			deaths, _ := s.died()
			v.count(1, deaths-before, deaths-before)
		}
	}
	s.stop()
	s.judge()
}

// back is for symmetry of lives: a node that has had its life is manageable,
// which is where the next one begins.
func (s *site) back(uuid string) {
	if n := s.settle(uuid); n.State != "manageable" {
		s.t.Fatalf("node %s is %s", n.Name, n.State)
	}
}

// begin enrolls a machine whose second disk is to be written.
func (s *site) begin(m interface{ Name() string }) (uuid string) {
	s.t.Helper()
	s.addImage()
	machine := s.machineOf(m.Name())
	more := map[string]any{}
	if disks := machine.Spec().Disks; len(disks) > 1 {
		more["root_device"] = map[string]any{"serial": disks[1].Serial}
	}
	return s.enroll(machine, more)
}
