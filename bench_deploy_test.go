//go:build linux

package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A stepTime is how long a step of a deployment took.
type stepTime struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// benchDeploy deploys a QEMU machine with UEFI and a Redfish controller once,
// and says what the time from the request to ACTIVE was spent on.
func benchDeploy(t *testing.T, b *bench) {
	t.Setenv("BESSEMER_CONDUCTOR_AUTOMATED_CLEAN", "false") // its time is not the deployment's
	r := startRack(t)
	n := r.addUEFI("uefi-1")
	n.enroll(t)
	n.provision(t, "manage", nil, "manageable")
	n.provision(t, "provide", nil, "available")
	begun := time.Now()
	n.startDeploy(t, "tiny.raw.zst", "bench")
	n.waitState(t, 10*time.Minute, "active")
	seen := time.Since(begun).Seconds()
	n.checkDisk(t)

	d := n.timedRun(t)
	for _, s := range d.Steps {
		b.steps = append(b.steps, stepTime{s.Name, s.Ended.Sub(s.Started).Seconds()})
	}
	total := d.Ended.Sub(d.Started).Seconds()
	write, boot := b.step("write-image"), b.step("await-agent")
	fi, err := os.Stat(filepath.Join(*imageDir, "tiny.raw"))
	if err != nil {
		t.Fatal(err)
	}
	figure := func(subject string, seconds float64, how string) row {
		return row{Subject: "deploy, " + subject, Unit: "s", Ours: []float64{seconds}, Less: true, How: how}
	}
	b.add(figure("request to ACTIVE", total, fmt.Sprintf("QEMU without KVM, UEFI, Redfish; a client that polls sees it after %.1f s", seen)))
	b.add(figure("image write", write, fmt.Sprintf("%.0f MB image as .zst, verified", mega(fi.Size()))))
	b.add(figure("boot of firmware and ramdisk", boot, "power on to the agent's first heartbeat"))
	over := figure("the rest, ours", total-write-boot, "request to ACTIVE less write and boot; the peer's agent was simulated, without a boot")
	over.Peer, over.PeerName = []float64{44}, ironic+": 44 of 46"
	b.add(over)
}

func (b *bench) step(name string) float64 {
	i := slices.IndexFunc(b.steps, func(s stepTime) bool { return s.Name == name })
	if i < 0 {
		return 0
	}
	return b.steps[i].Seconds
}

// A timedRun is a run with its times.
type timedRun struct {
	Workflow       string
	Started, Ended time.Time
	Steps          []struct {
		Name           string
		Started, Ended time.Time
	}
}

func (n *node) timedRun(t *testing.T) timedRun {
	t.Helper()
	var got struct{ Runs []timedRun }
	n.call(t, http.MethodGet, "/api/v1/runs?limit=1&node="+n.uuid, nil, &got)
	if len(got.Runs) != 1 || got.Runs[0].Workflow != "deploy" || got.Runs[0].Ended.IsZero() {
		t.Fatalf("the node's last run is no deployment that has ended: %+v", got.Runs)
	}
	return got.Runs[0]
}
