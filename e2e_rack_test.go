//go:build linux

package main_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bessemer/bmc/sim"
	"bessemer/bmc/sim/lab"
	"bessemer/server/client"
)

// A rack is a lab with an appliance in it.
type rack struct {
	t      *testing.T
	lab    *lab.Lab
	app    *appliance
	images string // URL of the image server
	nodes  []*node
}

// newRack starts an appliance in a lab of its own, or skips the test. Settings
// are those that differ, as environment variables.
func newRack(t *testing.T, settings ...string) *rack {
	t.Helper()
	if !*e2e {
		t.Skip("end-to-end tests run with -e2e (make e2e)")
	}
	return startRack(t, settings...)
}

// startRack starts an appliance in a lab of its own.
func startRack(t *testing.T, settings ...string) *rack {
	t.Helper()
	for _, need := range []string{"bin/bessemer", filepath.Join(*imageDir, "tiny.sha256"), *kernelDir} {
		if _, err := os.Stat(need); err != nil {
			t.Fatalf("%v; make e2e builds it", err)
		}
	}
	r := &rack{t: t, lab: lab.New(t)}
	r.images = r.lab.ServeFiles(*imageDir)
	r.app = newAppliance(t, r.lab)
	r.app.settings = settings
	r.app.start(t)
	t.Cleanup(r.keepArtefacts) // before the lab goes
	return r
}

// An appliance is the product's binary, as a process in the lab.
type appliance struct {
	lab      *lab.Lab
	dir      string
	config   string
	settings []string // of the environment
	url      string
	client   *client.Client
	proc     *lab.Process
}

func newAppliance(t *testing.T, l *lab.Lab) *appliance {
	t.Helper()
	a := &appliance{lab: l, dir: filepath.Join(l.Dir, "appliance"), url: "http://127.0.0.1:6385"}
	a.config = filepath.Join(l.Dir, "bessemer.yaml")
	if err := os.WriteFile(a.config, []byte(applianceConfig(t, a.dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if a.client, err = client.New(a.url, nil); err != nil {
		t.Fatal(err)
	}
	a.client.HTTP = l.HTTPClient()
	return a
}

// applianceConfig is the whole configuration: all that differs from the
// defaults.
func applianceConfig(t *testing.T, dir string) string {
	t.Helper()
	kernels, err := filepath.Glob(filepath.Join(*kernelDir, "boot/vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		t.Fatalf("%d kernels in %s/boot, want one", len(kernels), *kernelDir)
	}
	kernel, err := filepath.Abs(kernels[0])
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimPrefix(filepath.Base(kernel), "vmlinuz-")
	modules := filepath.Join(filepath.Dir(filepath.Dir(kernel)), "lib/modules", version)
	return fmt.Sprintf(`data_dir: %s
log: {level: debug, format: json}
provisioning: {interface: %s, address: %s}
dhcp: {range: 192.0.2.100-192.0.2.199}
ramdisk: {kernel: %s, modules: %s}
conductor: {power_sync_interval: 10s}
`, dir, lab.Bridge, lab.Appliance, kernel, modules)
}

// start starts the appliance, also again after a kill, and waits until it
// answers and has a ramdisk.
func (a *appliance) start(t *testing.T) {
	t.Helper()
	bin, err := filepath.Abs("bin/bessemer")
	if err != nil {
		t.Fatal(err)
	}
	a.proc = a.lab.Start("appliance.log", a.settings, bin, "--config", a.config, "serve")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !a.ready(ctx) {
		select {
		case <-a.proc.Ended():
			t.Fatalf("the appliance ended with exit code %d: %s", a.proc.ExitCode(), tail(a.proc.Log, 4000))
		case <-ctx.Done():
			t.Fatalf("the appliance is not ready: %s", tail(a.proc.Log, 4000))
		case <-time.After(100 * time.Millisecond):
		}
	}
	a.client.User, a.client.Password = "admin", a.password(t)
}

func (a *appliance) ready(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := a.client.HTTP.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// kill is kill -9.
func (a *appliance) kill() { a.proc.Kill() }

func (a *appliance) password(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(a.dir, "admin.secret"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// cli runs the command line in the lab and returns what it prints.
func (a *appliance) cli(ctx context.Context, args ...string) (string, error) {
	out, err := a.lab.Command(ctx, "bin/bessemer", append([]string{"--config", a.config}, args...)...).CombinedOutput()
	return string(out), err
}

// addBIOS puts a machine into the rack that boots by BIOS and has ipmi_sim as
// its controller.
func (r *rack) addBIOS(name string) *node {
	r.t.Helper()
	m := r.lab.Machine(sim.QEMUConfig{Spec: sim.Spec{
		Name: name, UUID: "16b7275a-4a72-508c-9b1f-0a1b2c3d4e01", Manufacturer: "Bessemer", Model: "BIOS machine", Serial: "SN-BIOS-1",
		Modes: []string{sim.BIOS},
		NICs:  []sim.NIC{{MAC: "52:54:00:be:55:01", Model: "e1000e"}},
		Disks: []sim.Disk{{Bus: sim.SATA, Size: 5 << 30, Serial: "DISK-B"}},
	}})
	b := r.lab.IPMISim(m)
	return r.add(&node{rack: r, name: name, machine: m, driver: "ipmi", driverInfo: map[string]any{
		"ipmi_address": b.Addr.String(), "ipmi_port": fmt.Sprint(b.Port), "ipmi_username": b.User, "ipmi_password": b.Password,
		"ipmi_cipher_suite": "3",
	}})
}

// addUEFI puts a machine into the rack that boots by UEFI and has our Redfish
// service as its controller. It has a second, smaller disk that is to be left
// alone: the image goes to the one that the hints name.
func (r *rack) addUEFI(name string) *node {
	r.t.Helper()
	return r.addRedfish(name, sim.RedfishOptions{RequireETag: true})
}

// addRedfish is addUEFI with a controller of certain manners, and with other
// disks if there are any given.
func (r *rack) addRedfish(name string, opts sim.RedfishOptions, disks ...sim.Disk) *node {
	r.t.Helper()
	if len(disks) == 0 {
		disks = []sim.Disk{{Bus: sim.NVMe, Size: 6 << 30, Serial: "DISK-U"}, {Bus: sim.VirtioBlk, Size: 5 << 30, Serial: "DISK-OTHER"}}
	}
	m := r.lab.Machine(sim.QEMUConfig{Spec: sim.Spec{
		Name: name, UUID: "16b7275a-4a72-508c-9b1f-0a1b2c3d4e02", Manufacturer: "Bessemer", Model: "UEFI machine", Serial: "SN-UEFI-1",
		Modes: []string{sim.UEFI},
		NICs:  []sim.NIC{{MAC: "52:54:00:be:55:02", Model: "virtio-net-pci", NoROM: true}},
		Disks: disks,
	}})
	b, _ := r.lab.Redfish(m, opts)
	ca := filepath.Join(r.lab.Dir, name+"-ca.pem")
	if err := os.WriteFile(ca, []byte(b.CA), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return r.add(&node{rack: r, name: name, machine: m, driver: "redfish", driverInfo: map[string]any{
		"redfish_address": "https://" + b.Addr.String(), "redfish_system_id": "/redfish/v1/Systems/" + name,
		"redfish_username": b.User, "redfish_password": b.Password, "redfish_verify_ca": ca,
	}})
}

func (r *rack) add(n *node) *node {
	r.nodes = append(r.nodes, n)
	return n
}

// both does something to several nodes at once.
func (r *rack) both(nodes []*node, do func(*testing.T, *node)) {
	r.t.Helper()
	ok := r.t.Run("nodes", func(t *testing.T) {
		for _, n := range nodes {
			t.Run(n.name, func(t *testing.T) {
				t.Parallel()
				do(t, n)
			})
		}
	})
	if !ok {
		r.t.FailNow()
	}
}

// tail is the end of a file.
func tail(file string, n int) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-n):])
}
