//go:build linux

package main_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/lab"
)

// The end-to-end tests drive the built binaries against machines with real
// firmware, and look at the result from outside: at the serial consoles and at
// the disks. They need root, QEMU and the tiny image; see make e2e.
var (
	e2e       = flag.Bool("e2e", false, "run the end-to-end tests")
	kernelDir = flag.String("kernel", ".cache/kernel", "unpacked Debian kernel package for the ramdisk")
	imageDir  = flag.String("images", ".cache/images", "directory of the tiny test image")
)

func TestMain(m *testing.M) { lab.Main(m) }

// Two machines, one BIOS with an IPMI controller, one UEFI with a Redfish
// controller, go from bare to active, run the operating system that was
// written to their disks, are wiped, and are deployed again.
func TestE2EDeploy(t *testing.T) {
	r := newRack(t)
	nodes := []*node{r.addBIOS("bios-1"), r.addUEFI("uefi-1")}
	images := map[string][]string{ // the first deployment, then the second
		sim.BIOS: {"tiny.qcow2", "tiny.raw.gz"},
		sim.UEFI: {"tiny.raw.zst", "tiny.raw"},
	}
	r.both(nodes, func(t *testing.T, n *node) {
		n.enroll(t)
		n.provision(t, "manage", nil, "manageable")
		n.provision(t, "provide", nil, "available")
		for i, image := range images[n.mode()] {
			n.deploy(t, image, fmt.Sprintf("%s-%d", n.name, i))
			n.checkDisk(t)
			if i > 0 {
				break
			}
			n.checkConformance(t)
			n.provision(t, "deleted", nil, "available")
			n.checkWiped(t)
		}
	})
}

// The appliance is killed at several steps of a deployment, each time goes on
// where it was, and the node becomes active.
func TestE2EKill(t *testing.T) {
	t.Parallel()
	r := newRack(t, "BESSEMER_CONDUCTOR_AUTOMATED_CLEAN=false")
	// A controller as slow as real ones makes steps that last.
	n := r.addRedfish("uefi-1", sim.RedfishOptions{Delay: 300 * time.Millisecond})
	n.enroll(t)
	n.provision(t, "manage", nil, "manageable")
	n.provision(t, "provide", nil, "available")
	mark := n.startDeploy(t, "tiny.raw.zst", "killed")
	var killed []string
	for _, step := range []string{"power-off", "await-agent", "write-image", "set-boot-device-disk", "power-off-ramdisk", "power-on"} {
		now := n.awaitStep(t, step, killed)
		if now == "" {
			break // it was faster than we
		}
		r.app.kill()
		killed = append(killed, now)
		r.app.start(t)
	}
	t.Logf("killed at %s", strings.Join(killed, ", "))
	if len(killed) < 5 {
		t.Errorf("killed at %d steps only, want 5", len(killed))
	}
	n.waitState(t, 15*time.Minute, "active")
	n.checkBooted(t, mark, driveFacts("killed"))
	n.checkDisk(t)
	if got := n.runs(t, "deploy"); got != 1 {
		t.Errorf("%d deploy runs, want one", got)
	}
}

// OpenStack's own client enrolls, deploys and deletes a node.
func TestE2EOpenStackClient(t *testing.T) {
	if _, err := exec.LookPath("openstack"); err != nil {
		t.Skip("no openstack command (Debian packages python3-openstackclient, python3-ironicclient)")
	}
	t.Parallel()
	r := newRack(t)
	n := r.addUEFI("uefi-1")
	os := func(args ...string) string {
		t.Helper()
		cmd := r.lab.Command(t.Context(), "openstack", append([]string{"baremetal"}, args...)...)
		cmd.Env = append(cmd.Environ(), "OS_AUTH_TYPE=http_basic", "OS_ENDPOINT="+r.app.url, "OS_USERNAME=admin", "OS_PASSWORD="+r.app.password(t))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("openstack baremetal %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	create := []string{"node", "create", "--driver", n.driver, "--name", n.name, "-f", "value", "-c", "uuid"}
	for k, v := range n.driverInfo {
		create = append(create, "--driver-info", fmt.Sprintf("%s=%v", k, v))
	}
	n.uuid = os(create...)
	os("port", "create", "--node", n.uuid, n.machine.Spec().NICs[0].MAC)
	os("node", "manage", "--wait", "300", n.name)
	os("node", "provide", "--wait", "900", n.name)
	img := r.image(t, "tiny.raw.zst")
	os("node", "set", n.name, "--instance-info", "image_source="+img.url, "--instance-info", "image_checksum="+img.sha256)
	mark := lab.ConsoleSize(n.machine)
	os("node", "deploy", "--wait", "1200", "--config-drive", `{"meta_data": {"hostname": "by-openstack"}}`, n.name)
	n.checkBooted(t, mark, map[string]string{"host": "by-openstack"})
	if got := os("node", "show", n.name, "-f", "value", "-c", "provision_state"); got != "active" {
		t.Errorf("provision state: got %q, want active", got)
	}
	os("node", "undeploy", "--wait", "900", n.name)
	os("node", "delete", n.name)
	if got := os("node", "list", "-f", "value"); strings.Contains(got, n.name) {
		t.Errorf("the node is still listed: %s", got)
	}
}

// checkWiped looks at a machine that was undeployed: nothing of a partition
// table is left, and it boots nothing.
func (n *node) checkWiped(t *testing.T) {
	t.Helper()
	disk := n.machine.Spec().Disks[0]
	f, err := os.Open(disk.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const gpt = 34 * 512 // at either end: the MBR, the header, the entries
	for _, at := range []int64{0, disk.Size - 33*512} {
		b := make([]byte, min(gpt, disk.Size-at))
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(b, func(c byte) bool { return c != 0 }); i >= 0 {
			t.Errorf("disk %s has data at byte %d after it was wiped", disk.Serial, at+int64(i))
		}
	}
	mark := lab.ConsoleSize(n.machine)
	if err := n.machine.SetBoot(bmc.Boot{Device: bmc.Disk}); err != nil {
		t.Fatal(err)
	}
	if err := n.machine.Power(t.Context(), bmc.On); err != nil {
		t.Fatal(err)
	}
	// What firmware says when a disk has no boot loader and it goes on.
	lab.WaitConsole(t, n.machine, mark, map[string]string{sim.BIOS: "Boot failed", sim.UEFI: "failed to load"}[n.mode()], 2*time.Minute)
	if strings.Contains(lab.ConsoleText(t, n.machine, mark), lab.Marker) {
		t.Error("the operating system booted although the disk was wiped")
	}
	if err := n.machine.Power(t.Context(), bmc.ForceOff); err != nil {
		t.Fatal(err)
	}
}
