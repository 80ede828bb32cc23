//go:build linux

package main_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/store"
)

// What people get wrong ends in an error that says what was tried, what came
// back and what to do, and changes nothing that need not be changed.
func TestE2EBadInput(t *testing.T) {
	r := newRack(t,
		"BESSEMER_CONDUCTOR_AUTOMATED_CLEAN=false", // boots that show nothing here
		"BESSEMER_BMC_CONNECT_TIMEOUT=5s", "BESSEMER_BMC_CALL_TIMEOUT=5s")
	// The disk that the hints name is smaller than the other one, and than
	// some images.
	bios := r.addBIOS("bios-1")
	uefi := r.addRedfish("uefi-1", sim.RedfishOptions{RequireETag: true},
		sim.Disk{Bus: sim.NVMe, Size: 128 << 20, Serial: "DISK-U"}, sim.Disk{Bus: sim.VirtioBlk, Size: 5 << 30, Serial: "DISK-OTHER"})
	nodes := []*node{bios, uefi}
	r.both(nodes, func(t *testing.T, n *node) {
		n.enroll(t)
		n.provision(t, "manage", nil, "manageable")
		n.provision(t, "provide", nil, "available")
		n.stain(t)
	})
	bad := serveBadImages(t, r)
	t.Run("requests", func(t *testing.T) { checkRefusals(t, bios) })
	t.Run("images", func(t *testing.T) { checkImageRefusals(t, bios, bad) })
	t.Run("command line", func(t *testing.T) { checkCommandLine(t, bios) })
	t.Run("controllers", func(t *testing.T) { checkStrangers(t, beginVerifying(t, bios, uefi)) })
	for _, n := range nodes {
		n.checkUntouched(t) // nothing of this has got as far as to a machine
		if got := n.machine.Starts(); len(got) != 0 {
			t.Errorf("%s was started: %v", n.name, got)
		}
	}
	r.both(nodes, func(t *testing.T, n *node) {
		for _, f := range bad.failures(t, n) {
			t.Run(f.name, func(t *testing.T) { n.checkFailure(t, f) })
		}
	})
	t.Run("no free address", func(t *testing.T) { checkNoAddress(t, bios) })
}

// A failure is a deployment that cannot succeed, which only the ramdisk finds
// out.
type failure struct {
	name        string
	source, sum string
	hints       map[string]any
	says        []string // in last_error
	untouched   bool     // the disk; else it has lost its partition table
}

func (b *badImages) failures(t *testing.T, n *node) []failure {
	own := map[string]any{"serial": n.machine.Spec().Disks[0].Serial}
	good := n.rack.image(t, "tiny.raw.zst")
	other := n.rack.image(t, "tiny.raw")
	if n.mode() == sim.BIOS {
		return []failure{
			{
				name: "wrong checksum", source: good.url, sum: other.sha256, hints: own,
				says: []string{"write-image", "tiny.raw.zst", "checksum mismatch", good.sha256, other.sha256, "changed on the server or damaged on the way"},
			},
			{
				name: "qcow2 larger than the disk", source: b.url + "vast.qcow2", sum: b.sums["vast.qcow2"], hints: own, untouched: true,
				says: []string{"write-image", "vast.qcow2", "the disk is too small", "1.0 TiB", "5.0 GiB", "choose a larger disk"},
			},
			{
				name: "raw larger than the disk", source: b.url + "long.raw", sum: other.sha256, hints: own, untouched: true,
				says: []string{"write-image", "long.raw", "the disk is too small", "20.0 GiB", "5.0 GiB", "choose a larger disk"},
			},
			{
				name: "truncated", source: b.url + "cut.raw", sum: other.sha256, hints: own,
				says: []string{"write-image", b.url + "cut.raw", "the connection broke 5 times", fmt.Sprint(cutAt), "unexpected EOF", "check the server"},
			},
		}
	}
	return []failure{
		{
			name: "zst larger than the disk", source: b.url + "large.raw.zst", sum: b.sums["large.raw.zst"], hints: own,
			says: []string{"write-image", "large.raw.zst", "the disk is too small", "at least", "128.0 MiB", "choose a larger disk"},
		},
		{
			name: "no root device", source: good.url, sum: good.sha256, hints: map[string]any{"serial": "NO-SUCH-DISK"}, untouched: true,
			says: []string{"write-image", "no disk can be the root device", "NO-SUCH-DISK", "/dev/nvme0n1", "DISK-U", "/dev/vda", "DISK-OTHER", "properties/root_device"},
		},
	}
}

// checkFailure deploys, and expects it to fail as it should.
func (n *node) checkFailure(t *testing.T, f failure) {
	t.Helper()
	begun := time.Now()
	n.stain(t)
	n.setImage(t, f.source, f.sum)
	n.call(t, http.MethodPatch, "/v1/nodes/"+n.name, []map[string]any{{"op": "add", "path": "/properties/root_device", "value": f.hints}}, nil)
	before := n.show(t)
	n.provision(t, "active", nil, "deploy failed")
	after := n.show(t)
	said, _ := after["last_error"].(string)
	t.Logf("after %.1f s: %s", time.Since(begun).Seconds(), said)
	for _, want := range f.says {
		if !strings.Contains(said, want) {
			t.Errorf("last_error does not say %q: %s", want, said)
		}
	}
	for _, key := range []string{"instance_info", "properties", "driver_info", "maintenance", "name", "traits"} {
		if fmt.Sprint(before[key]) != fmt.Sprint(after[key]) {
			t.Errorf("%s was %v, is %v", key, before[key], after[key])
		}
	}
	if got := n.machine.PowerState(); got != store.PowerOff {
		t.Errorf("the machine is %q, want it off", got)
	}
	if f.untouched {
		n.checkUntouched(t)
		return
	}
	n.checkHalfWritten(t)
}

// checkNoAddress leaves the network's only address to another computer.
func checkNoAddress(t *testing.T, n *node) {
	r := n.rack
	r.app.kill()
	const only = "192.0.2.150"
	r.app.settings = append(r.app.settings, "BESSEMER_DHCP_RANGE="+only+"-"+only)
	r.app.start(t)
	got, err := r.lab.Lease("52:54:00:be:55:99")
	if err != nil || got.String() != only {
		t.Fatalf("the other computer got address %v (%v), want %s", got, err, only)
	}
	n.stain(t)
	good := r.image(t, "tiny.raw.zst")
	n.setImage(t, good.url, good.sha256)
	n.call(t, http.MethodPut, "/v1/nodes/"+n.name+"/states/provision", map[string]any{"target": "active"}, nil)
	says := []string{"no free address", only + "-" + only, "dhcp.range"}
	has := func(text string) bool {
		return !slices.ContainsFunc(says, func(want string) bool { return !strings.Contains(text, want) })
	}
	said := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end) && !has(said); time.Sleep(500 * time.Millisecond) {
		said, _ = r.app.cli(t.Context(), "node", "explain", n.name)
	}
	if !has(said) {
		t.Errorf("explain does not say %q: %s", says, said)
	}
	if traced, err := r.app.cli(t.Context(), "node", "trace", n.name); err != nil || !has(traced) {
		t.Errorf("the trace does not say %q (%v): %s", says, err, traced)
	}
	n.provision(t, "abort", nil, "deploy failed")
	if last, _ := n.show(t)["last_error"].(string); !has(last) {
		t.Errorf("last_error does not say %q: %s", says, last)
	}
	n.checkUntouched(t)
}

// beginVerifying enrolls nodes whose controllers cannot be used with what is
// said of them, and has them verified.
func beginVerifying(t *testing.T, bios, uefi *node) []stranger {
	t.Helper()
	r := bios.rack
	silent := r.lab.Controller().String()
	quiet, err := r.lab.Listen(silent + ":443") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = quiet.Close() })
	mute, err := r.lab.ListenPacket("udp", silent+":623")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	foreign := filepath.Join(r.lab.Dir, "foreign-ca.pem")
	writeForeignCA(t, foreign)
	all := []stranger{
		{uefi, "redfish-password", with("redfish_password", "wrong"), []string{"user name or password refused", "admin", "correct user and password in driver_info"}},
		{bios, "ipmi-password", with("ipmi_password", "wrong"), []string{"user name or password refused", "admin", "correct user and password in driver_info"}},
		{uefi, "redfish-timeout", with("redfish_address", "https://"+silent), []string{"no answer", silent, "check the controller's address, network and power"}},
		{bios, "ipmi-timeout", with("ipmi_address", silent), []string{"no answer", silent, "check the controller's address, network and power"}},
		{uefi, "redfish-certificate", with("redfish_verify_ca", foreign), []string{"certificate not trusted", "redfish_verify_ca"}},
		{uefi, "redfish-system", with("redfish_system_id", "/redfish/v1/Systems/nosuch"), []string{"/redfish/v1/Systems/nosuch", "redfish_system_id", "/redfish/v1/Systems/uefi-1"}},
	}
	for _, s := range all {
		info := maps.Clone(s.like.driverInfo)
		maps.Copy(info, s.wrong)
		s.like.call(t, http.MethodPost, "/v1/nodes", map[string]any{"name": s.name, "driver": s.like.driver, "driver_info": info}, nil)
		s.like.call(t, http.MethodPut, "/v1/nodes/"+s.name+"/states/provision", map[string]any{"target": "manage"}, nil)
	}
	return all
}

// A stranger is a node whose driver_info is like another's, but for what is
// wrong in it.
type stranger struct {
	like  *node
	name  string
	wrong map[string]any
	says  []string // in last_error
}

func with(key, value string) map[string]any { return map[string]any{key: value} }

func checkStrangers(t *testing.T, all []stranger) {
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			n := &node{rack: s.like.rack, name: s.name, machine: s.like.machine}
			n.waitState(t, 2*time.Minute, "enroll")
			said, _ := n.show(t)["last_error"].(string)
			t.Log(said)
			for _, want := range s.says {
				if !strings.Contains(said, want) {
					t.Errorf("last_error does not say %q: %s", want, said)
				}
			}
			if strings.Contains(said, "wrong") || strings.Contains(said, fmt.Sprint(s.like.driverInfo["redfish_password"])) {
				t.Errorf("last_error tells the password: %s", said)
			}
			if got := s.like.machine.PowerState(); got != store.PowerOff {
				t.Errorf("the machine is %q", got)
			}
			if got := s.like.machine.Boot(); got != (bmc.Boot{}) {
				t.Errorf("the machine's boot override is %+v", got)
			}
		})
	}
}
