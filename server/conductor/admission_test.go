package conductor

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bessemer/bmc"
	"bessemer/store"
	"bessemer/store/storetest"
)

// TestSoManyAtOnce: machines start, and write, no more at once than they may,
// and all get their turn.
func TestSoManyAtOnce(t *testing.T) {
	k := newRack(t, storetest.Open(t), 16, func(c *Config) { c.MaxBoots, c.MaxImageStreams = 3, 2 })
	for _, m := range k.machines {
		m.writeTime = 5 * time.Millisecond
	}
	k.start()
	for _, node := range k.nodes {
		k.provision(node, "active")
	}
	for _, node := range k.nodes {
		k.awaitState(node, store.Active)
	}
	if k.booting.peak() > 3 || k.writing.peak() > 2 {
		t.Errorf("%d started at once and %d wrote", k.booting.peak(), k.writing.peak())
	}
	if k.boots.count()+k.streams.count() != 0 {
		t.Errorf("places left over: %d and %d", k.boots.count(), k.streams.count())
	}
}

// TestALineSurvivesARestart, says where each node stands, and moves on when a
// run ends in whatever way.
func TestALineSurvivesARestart(t *testing.T) {
	k := newRack(t, storetest.Open(t), 4, func(c *Config) { c.MaxBoots = 1 })
	for _, m := range k.machines {
		m.mute = true
	}
	k.start()
	inLine := func(text string) func(*store.Node) bool {
		return func(n *store.Node) bool {
			return n.ProvisionState == store.DeployWait && strings.HasSuffix(k.WaitingFor(n.UUID), text)
		}
	}
	started := func(n *store.Node) bool { return n.ProvisionState == store.DeployWait && k.WaitingFor(n.UUID) == "" }
	k.provision(k.nodes[0], "active")
	k.await(k.nodes[0], "to start", func(n *store.Node) bool { return n.ProvisionState == store.DeployWait })
	for i, place := range []string{"number 1 of 1 in line", "number 2 of 2 in line", "number 3 of 3 in line"} {
		k.provision(k.nodes[i+1], "active")
		k.await(k.nodes[i+1], "in line", inLine(place))
	}
	k.restart()
	for i, place := range []string{"number 1 of 3 in line", "number 2 of 3 in line", "number 3 of 3 in line"} {
		k.await(k.nodes[i+1], "in line again", inLine(place))
	}
	e, err := k.Explain(t.Context(), k.nodes[2])
	if want := "its turn to start (at most 1 machines do at once); it is number 2 of 3 in line"; err != nil || e.WaitingFor != want {
		t.Errorf("explained as waiting for %q (%v)", e.WaitingFor, err)
	}
	for i := range 3 {
		if k.machines[k.nodes[i+1]].starts() != 0 {
			t.Errorf("node %d was started before its turn", i+1)
		}
		k.provision(k.nodes[i], "abort")
		k.await(k.nodes[i+1], "its turn", started)
	}
	n, err := k.node(k.nodes[3])
	if err != nil {
		t.Fatal(err)
	}
	err = k.db.Update(func(tx *store.Tx) error { return store.Nodes.Delete(tx, n.UUID) })
	if k.NodeChanged(n.UUID); err != nil || k.boots.count() != 0 {
		t.Errorf("a deleted node keeps its place (%v)", err)
	}
}

// TestAdmission is first come, first served, and nobody keeps a place for ever.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken []string
		a := newAdmission("start", 2, func(node string) { woken = append(woken, node) })
		for _, node := range []string{"a", "b", "c", "d", "e", "c"} {
			if got, want := a.take(node), node == "a" || node == "b"; got != want {
				t.Errorf("%s has a place: %v", node, got)
			}
		}
		a.leave("d") // out of the line
		a.leave("a")
		if !slices.Equal(woken, []string{"c"}) || !a.take("c") || a.take("a") {
			t.Fatalf("woken: %v", woken)
		}
		time.Sleep(4 * time.Minute)
		a.renew("c") // b hangs
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !slices.Equal(woken, []string{"c", "e"}) || a.take("b") || !a.take("c") {
			t.Errorf("after a place was held too long, woken: %v", woken)
		}
		a.stop()
	})
}

// TestHangingControllersHoldUpNobody: however many steps wait for controllers
// that hang, a worker is left for the others.
func TestHangingControllersHoldUpNobody(t *testing.T) {
	hang := make(chan struct{})
	k := newRack(t, storetest.Open(t), 6, func(c *Config) { c.Workers = 1 })
	hung := k.nodes[:5]
	k.config.Types["test"] = testType(nil, nil)
	open := func(t bmc.Target) (bmc.Driver, error) {
		c := controller{m: k.machines[t.Node]}
		if slices.Contains(hung, t.Node) {
			c.trouble = func(string) error { <-hang; return nil }
		}
		return c, nil
	}
	typ := k.config.Types["test"]
	typ.Open = open
	k.config.Types["test"] = typ
	k.start()
	for _, node := range hung {
		k.provision(node, "active")
	}
	for _, node := range hung {
		k.await(node, "to hang", func(*store.Node) bool { _, s, ok := k.RunningStep(node); return ok && s.Name == "validate" })
	}
	k.provision(k.nodes[5], "active")
	k.awaitState(k.nodes[5], store.Active)
	for _, node := range hung {
		if n, err := k.node(node); err != nil || n.ProvisionState != store.Deploying {
			t.Errorf("node %s does not hang: %v %v", node, n, err)
		}
	}
	close(hang)
	for _, node := range hung {
		k.awaitState(node, store.Active)
	}
}
