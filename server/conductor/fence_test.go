package conductor

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"bessemer/store"
	"bessemer/store/storetest"
)

// restored puts a world's conductor onto the store from a backup.
func (w *world) restored(backup []byte) {
	w.t.Helper()
	w.stop()
	dir := w.t.TempDir()
	if err := store.Restore(dir, bytes.NewReader(backup), store.RestoreOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.db = storetest.OpenDir(w.t, dir)
	w.config.DB = w.db
	w.Conductor = New(w.config)
	w.start()
}

// TestARestoredStoreTouchesNothing: a backup from the middle of a deploy does
// not have the deploy done again on a machine that carries an instance by now
// (P-26).
func TestARestoredStoreTouchesNothing(t *testing.T) {
	w := newWorld(t)
	w.m.mu.Lock()
	w.m.polled = true
	w.m.mu.Unlock()
	w.enroll(store.Available)
	addNode(t, w.db, "11111111-2222-4333-8444-666666666666", "21111111-2222-4333-8444-666666666666", "52:54:00:00:00:02", store.Enroll,
		func(n *store.Node) { n.Name = "new" })
	w.provision("active")
	w.await("to wait", func(n *store.Node) bool { return n.ProvisionState == store.DeployWait })
	var backup bytes.Buffer
	if err := w.db.BackupWithKey(&backup); err != nil {
		t.Fatal(err)
	}
	w.wantState(w.settled(), store.Active)
	before := len(w.seen.all())

	w.restored(backup.Bytes())
	n := w.settled()
	w.wantState(n, store.DeployFailed)
	for what, text := range map[string]string{"last_error": n.LastError, "maintenance_reason": n.MaintenanceReason} {
		if !strings.Contains(text, "restored from a backup of ") {
			t.Errorf("%s is %q", what, text)
		}
	}
	if !n.Maintenance || n.Fault != "" || n.Reservation != nil || n.Agent.Token != "" {
		t.Errorf("node is %+v", n)
	}
	for _, verb := range []string{"active", "rebuild"} {
		if err := w.Provision(t.Context(), testNode, ProvisionRequest{Target: verb}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v", verb, err)
		}
	}
	w.syncAll(t.Context(), 0, map[string]int{})
	if b, _ := w.index.get(testNode); nextBoot(b).Action != "local" {
		t.Errorf("the boot servers say %+v", nextBoot(b))
	}
	if got := w.seen.all()[before:]; len(got) > 0 {
		t.Errorf("the machine has felt: %v", got)
	}
	if other, err := w.node("11111111-2222-4333-8444-666666666666"); err != nil || other.Maintenance {
		t.Errorf("a node that was never touched: %+v, %v", other, err)
	}

	// Once a person has looked, all is as ever, also after a restart.
	if err := w.db.Update(func(tx *store.Tx) error {
		n, err := store.Nodes.Get(tx, testNode)
		if err != nil {
			return err
		}
		n.Maintenance, n.MaintenanceReason = false, ""
		return store.Nodes.Put(tx, n)
	}); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.Conductor = New(w.config)
	w.start()
	w.provision("active")
	w.wantState(w.settled(), store.Active)
}
