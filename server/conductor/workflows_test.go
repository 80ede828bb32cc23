package conductor

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bessemer/bmc"
	"bessemer/store"
)

func TestTheWholeLifeOfANode(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Enroll)
	w.provision("manage")
	n := w.settled()
	w.wantState(n, store.Manageable)
	if n.PowerState != store.PowerOff || n.Properties["vendor"] != "Acme" {
		t.Errorf("after verify: power %q, properties %v", n.PowerState, n.Properties)
	}
	w.provision("provide")
	w.wantState(w.settled(), store.Available)
	w.provision("active", func(r *ProvisionRequest) { r.ConfigDrive = map[string]any{} })
	w.wantState(w.settled(), store.Active)
	if disk, drive := w.m.content(); len(drive) == 0 || !bytes.Equal(disk, testImage) {
		t.Error("image or config drive is not on the disk")
	}
	w.m.mu.Lock()
	w.m.disk = []byte("changed by the instance")
	w.m.mu.Unlock()
	w.provision("rebuild")
	w.wantState(w.settled(), store.Active)
	if disk, drive := w.m.content(); len(drive) == 0 || !bytes.Equal(disk, testImage) {
		t.Error("rebuild did not write image and config drive anew")
	}
	w.provision("deleted")
	n = w.settled()
	w.wantState(n, store.Available)
	if disk, _ := w.m.content(); disk != nil || len(n.InstanceInfo) != 0 || n.PowerState != store.PowerOff {
		t.Errorf("undeploy left disk %q, instance_info %v, power %q", disk, n.InstanceInfo, n.PowerState)
	}
	if d, err := w.configDrive(testNode); d != nil || err != nil {
		t.Errorf("undeploy left a config drive (%v)", err)
	}
	golden(t, "life.seq", withoutPolls(diagram(t, w.db)))
}

func TestConfigDriveReachesTheDisk(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Available)
	w.provision("active", func(r *ProvisionRequest) {
		r.ConfigDrive = map[string]any{"meta_data": map[string]any{"hostname": "h1"}, "user_data": "#cloud-config\n"}
	})
	w.wantState(w.settled(), store.Active)
	_, drive := w.m.content()
	packed, err := base64.StdEncoding.DecodeString(string(drive))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	iso, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if label := strings.TrimRight(string(iso[16*2048+40:16*2048+72]), " \x00"); label != "config-2" {
		t.Errorf("volume label is %q", label)
	}
	if int64(len(iso)) != isoSize(iso) {
		t.Errorf("image has %d bytes, its descriptor says %d", len(iso), isoSize(iso))
	}
	if !bytes.Contains(iso, []byte(`"hostname":"h1"`)) || !bytes.Contains(iso, []byte("#cloud-config")) {
		t.Error("meta_data or user_data is not in the image")
	}
	left, err := filepath.Glob(filepath.Join(w.config.Dir, "tmp", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("short-lived files were left: %v", left)
	}
}

// TestDeployFailures fails each participant in turn and looks at the state,
// the words, and what is tidied up.
func TestDeployFailures(t *testing.T) {
	busy := errors.New("503 busy")
	tests := []struct {
		name   string
		bmc    string // call of the controller that fails for good
		fails  map[string]string
		source string
		want   string // in last_error
		off    bool   // the machine is off afterwards
	}{
		{name: "bmc does not tell the power state", bmc: "power state", want: "validate: "},
		{name: "bmc refuses the boot device", bmc: "set boot pxe", want: "set-boot-device-pxe: ", off: true},
		{name: "bmc refuses power on", bmc: "power on", want: "reboot: ", off: true},
		{name: "bmc refuses the disk", bmc: "set boot disk", want: "set-boot-device-disk: ", off: true},
		{name: "wrong checksum", source: "wrong sum", want: "write-image: the agent says: checksum mismatch", off: true},
		{name: "image too large", fails: map[string]string{"write_image": "image has 9 GiB, disk /dev/sda 8 GiB"}, want: "write-image: the agent says: image has 9 GiB", off: true},
		{name: "no step list", fails: map[string]string{"deploy.get_deploy_steps": "boom"}, want: "get-deploy-steps: ", off: true},
		{name: "no partitions", fails: map[string]string{"standby.get_partition_uuids": "boom"}, want: "install-bootloader: ", off: true},
		{name: "no boot loader", fails: map[string]string{"image.install_bootloader": "no EFI system partition"}, want: "install-bootloader: the agent says: no EFI system partition", off: true},
		{name: "disks not synced", fails: map[string]string{"standby.sync": "input/output error"}, want: "sync-disks: the agent says: input/output error", off: true},
		{name: "no logs", fails: map[string]string{"log.collect_system_logs": "boom"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.enroll(store.Available, func(n *store.Node) {
				if tt.source != "" {
					n.InstanceInfo["image_source"] = tt.source
				}
			})
			if tt.fails != nil {
				w.m.fails = tt.fails
			}
			w.fail(tt.bmc, busy)
			w.provision("active")
			n := w.settled()
			if tt.want == "" {
				w.wantState(n, store.Active)
				return
			}
			w.wantState(n, store.DeployFailed)
			if !strings.HasPrefix(n.LastError, tt.want) || tt.bmc != "" && !strings.Contains(n.LastError, "503 busy") {
				t.Errorf("last_error is %q, want %q", n.LastError, tt.want)
			}
			if n.TargetProvisionState != store.Active || n.Maintenance || n.Reservation != nil || n.DeployStep != nil {
				t.Errorf("node is left as %+v", n)
			}
			if off := w.m.state() == store.PowerOff; tt.off && !off {
				t.Error("the machine was left on")
			}
			w.wantUnbound()
		})
	}
}

// fail has one call of the controller fail, until it is called with "".
func (w *world) fail(method string, err error) {
	fn := func(m string) error {
		if m == method {
			return err
		}
		return nil
	}
	w.trouble.Store(&fn)
}

// wantUnbound checks that no port is left on one of the appliance's networks
// and that the boot servers offer no ramdisk.
func (w *world) wantUnbound() {
	w.t.Helper()
	ports, err := w.ports(testNode)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range ports {
		if p.Network != "" {
			w.t.Errorf("port is left on network %q", p.Network)
		}
	}
	if b, ok := w.index.get(testNode); !ok || b.boot != nil {
		w.t.Error("the ramdisk is still offered")
	}
}

func TestVerifyFails(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Enroll)
	w.fail("identify", bmc.ErrCredentials)
	w.provision("manage")
	n := w.settled()
	w.wantState(n, store.Enroll)
	if !strings.Contains(n.LastError, "identify-controller: ") || !strings.Contains(n.LastError, "refused; correct user and password") {
		t.Errorf("last_error is %q", n.LastError)
	}
	w.fail("", nil)
	w.provision("manage")
	if n = w.settled(); n.ProvisionState != store.Manageable || n.LastError != "" {
		t.Errorf("second try leaves %q (%q)", n.ProvisionState, n.LastError)
	}
}

func TestCleanFails(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Manageable)
	w.m.fails = map[string]string{"erase_devices_metadata": "disk /dev/sda is read-only"}
	w.provision("provide")
	n := w.settled()
	w.wantState(n, store.CleanFailed)
	want := "run-clean-steps: erase_devices_metadata: the agent says: disk /dev/sda is read-only"
	if n.LastError != want || !n.Maintenance || n.Fault != "clean failure" || n.MaintenanceReason != want {
		t.Errorf("node is left as %+v", n)
	}
	if n.TargetProvisionState != store.Available || n.CleanStep != nil || w.m.state() != store.PowerOff {
		t.Errorf("target %q, clean step %v, power %q", n.TargetProvisionState, n.CleanStep, w.m.state())
	}
	w.wantUnbound()
	w.provision("manage")
	w.wantState(w.get(), store.Manageable)
}

func TestUndeployFails(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Active, func(n *store.Node) { n.PowerState = store.PowerOn })
	w.m.act(bmc.On)
	w.fail("power force off", errors.New("503 busy"))
	w.provision("deleted")
	n := w.settled()
	w.wantState(n, store.Error)
	if !strings.HasPrefix(n.LastError, "power-off: ") || n.InstanceInfo["image_source"] == nil {
		t.Errorf("last_error is %q, instance_info %v", n.LastError, n.InstanceInfo)
	}
	w.fail("", nil)
	w.provision("deleted")
	w.wantState(w.settled(), store.Available)
}

func TestAutomatedCleanIsOff(t *testing.T) {
	no, yes := false, true
	tests := []struct {
		name  string
		node  *bool
		off   bool
		boots int
	}{
		{"by configuration", nil, true, 0},
		{"by the node", &no, false, 0},
		{"the node wants it", &yes, true, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.NoAutomatedClean = tt.off })
			w.enroll(store.Manageable, func(n *store.Node) { n.AutomatedClean = tt.node })
			w.provision("provide")
			w.wantState(w.settled(), store.Available)
			if w.m.starts() != tt.boots {
				t.Errorf("started %d times, want %d", w.m.starts(), tt.boots)
			}
		})
	}
}

func TestARetiredNodeIsNotOfferedAgain(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Active, func(n *store.Node) { n.Retired = true })
	w.provision("deleted")
	w.wantState(w.settled(), store.Manageable)
}

func TestManualClean(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Manageable)
	w.provision("clean", func(r *ProvisionRequest) {
		r.CleanSteps = []StepRequest{{Interface: "deploy", Step: "erase_devices"}, {Interface: "deploy", Step: "erase_devices_metadata"}}
	})
	w.wantState(w.settled(), store.Manageable)
	for _, step := range []string{"erase_devices", "erase_devices_metadata"} {
		if got := w.seen.count("agent: execute_clean_step " + step); got != 1 {
			t.Errorf("%s ran %d times", step, got)
		}
	}
	w.provision("clean", func(r *ProvisionRequest) { r.CleanSteps = []StepRequest{{Interface: "deploy", Step: "no_such"}} })
	n := w.settled()
	w.wantState(n, store.CleanFailed)
	if !strings.Contains(n.LastError, "deploy.no_such is not offered; the node's ramdisk offers deploy.erase_devices") {
		t.Errorf("last_error is %q", n.LastError)
	}
}

func TestRamdiskLogsAreKept(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.LogsPerNode = 2 })
	w.enroll(store.Available)
	for range 3 {
		w.provision(map[bool]string{true: "active", false: "rebuild"}[w.get().ProvisionState == store.Available])
		w.wantState(w.settled(), store.Active)
	}
	files, err := filepath.Glob(filepath.Join(w.config.Dir, "logs", testNode+"_*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("log archives: %v (%v)", files, err)
	}
	if text, err := os.ReadFile(files[0]); err != nil || string(text) != "logs" {
		t.Errorf("%s holds %q (%v)", files[0], text, err)
	}
}

func TestFakeDeploy(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Available, func(n *store.Node) { n.Interfaces = map[string]string{"deploy": "fake"}; n.InstanceInfo = nil })
	w.provision("active")
	w.wantState(w.settled(), store.Active)
	w.provision("rebuild")
	w.wantState(w.settled(), store.Active)
	w.provision("deleted")
	w.wantState(w.settled(), store.Available)
	if w.seen.count("boots ramdisk") != 0 {
		t.Error("a fake deploy booted the ramdisk")
	}
}

func TestSetPower(t *testing.T) {
	w := newWorld(t)
	w.enroll(store.Active)
	for _, tt := range []struct{ target, want store.PowerState }{
		{store.PowerOn, store.PowerOn},
		{store.Rebooting, store.PowerOn},
		{store.SoftReboot, store.PowerOn},
		{store.SoftPowerOff, store.PowerOff},
		{store.PowerOn, store.PowerOn},
		{store.PowerOff, store.PowerOff},
	} {
		if err := w.SetPower(t.Context(), testNode, tt.target, 0); err != nil {
			t.Fatal(err)
		}
		n := w.settled()
		if n.PowerState != tt.want || w.m.state() != tt.want || n.TargetPowerState != "" || n.ProvisionState != store.Active || n.LastError != "" {
			t.Errorf("%s leaves %q, machine %q: %+v", tt.target, n.PowerState, w.m.state(), n)
		}
	}
	if on, off := w.seen.count("power on"), w.seen.count("power off"); on != 4 || off != 4 {
		t.Errorf("turned on %d times and off %d times", on, off)
	}
	w.fail("power on", errors.New("503 busy"))
	if err := w.SetPower(t.Context(), testNode, store.PowerOn, 0); err != nil {
		t.Fatal(err)
	}
	if n := w.settled(); !strings.HasPrefix(n.LastError, "power-on: ") || n.TargetPowerState != "" || n.ProvisionState != store.Active {
		t.Errorf("a failed power change leaves %+v", n)
	}
	if err := w.SetPower(t.Context(), testNode, "purple", 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("purple: %v", err)
	}
}
