package prove

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"bessemer/bmc/sim"
	"bessemer/bmc/sim/firmware"
	"bessemer/bmc/sim/hardware"
	"bessemer/bmc/sim/rack"
	"bessemer/bmc/sim/tinyos"
)

// A site is an appliance that is killed, and a rack of simulated machines that
// lives on in this process.
type site struct {
	*appliance
	v      *verdict
	rack   *rack.Rack
	points string
	// sum is the checksum of the image that is deployed, wrong one that it
	// does not have.
	sum, wrong string
	image      *httptest.Server // has the image as well
}

// imageName is the image that the appliance keeps.
const imageName = "tiny"

// newSite starts an appliance and a rack beside it, and enrolls nothing.
func newSite(t *testing.T, v *verdict, machines int, profile string, pace float64, o order, settings ...string) *site {
	t.Helper()
	dir := shortDir(t)
	s := &site{v: v, points: filepath.Join(dir, "points")}
	o.Points, o.Seed = s.points, v.Seed
	sum := sha256.Sum256(tinyos.Image())
	s.image = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"tiny"`)
		http.ServeContent(w, r, "", time.Time{}, newReader(tinyos.Image()))
	}))
	t.Cleanup(s.image.Close)
	s.sum, s.wrong = hex.EncodeToString(sum[:]), hex.EncodeToString(make([]byte, 32))
	_, port, err := net.SplitHostPort(freeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	s.rack = openRack(t, rack.Options{
		Dir: filepath.Join(dir, "rack"), Wire: firmware.NewRemote(filepath.Join(data, "wire.sock")), Seed: v.Seed, Machines: machines,
		Profiles: []string{profile}, BMC: "mixed", Pace: pace, Log: zerolog.New(io.Discard), Version: "prove",
	})
	s.appliance = newAppliance(t, data, o, append([]string{
		"BESSEMER_PROVISIONING_INTERFACE=sim", "BESSEMER_PROVISIONING_PORT=" + port,
		"BESSEMER_DHCP_RANGE=" + nextRange(), "BESSEMER_OUTGOING_ALLOW=127.0.0.1/32",
		"BESSEMER_CONDUCTOR_BOOT_TIMEOUT=5s", "BESSEMER_CONDUCTOR_POWER_SYNC_INTERVAL=0s",
	}, settings...)...)
	return s
}

// sites counts the sites of this process.
var sites atomic.Uint32

// nextRange is what a site's appliance may give its machines: addresses of the
// simulated network that no other site has. Left to itself, an appliance takes
// what is free, and another one may take that while it is dead.
func nextRange() string {
	n := 96 + (uint32(os.Getpid())*7+sites.Add(1))%31
	return fmt.Sprintf("127.%d.0.1-127.%d.255.254", n, n)
}

// openRack opens a rack until the test ends. Another one may take the addresses
// that it has found free; then it looks for others.
func openRack(t *testing.T, o rack.Options) *rack.Rack {
	t.Helper()
	dir := o.Dir
	for try := 0; ; try++ {
		o.Dir = fmt.Sprint(dir, try)
		r, err := rack.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err = r.Open(); err == nil {
			t.Cleanup(func() {
				if err := r.Close(); err != nil {
					t.Errorf("close rack: %v", err)
				}
			})
			return r
		}
		if !errors.Is(err, syscall.EADDRINUSE) || try == 20 {
			t.Fatal(err)
		}
	}
}

// shortDir is a directory whose path leaves room for that of a unix socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "prove")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// addImage has the appliance keep the image.
func (s *site) addImage() {
	s.t.Helper()
	image := tinyos.Image()
	s.until(http.MethodPut, "/api/v1/images/"+imageName, sized{newReader(image), int64(len(image))}, func(r answer) bool {
		return r.ok() || r.status == http.StatusConflict
	})
}

// enroll tells the appliance of a machine, whatever becomes of the requests.
func (s *site) enroll(m *rack.Machine, more map[string]any) (uuid string) {
	s.t.Helper()
	e := m.Enrollment()
	for k, v := range more {
		e.Properties[k] = v
	}
	created := func(r answer) bool { return r.ok() || r.status == http.StatusConflict }
	s.until(http.MethodPost, "/v1/nodes", map[string]any{
		"name": e.Name, "driver": e.Driver, "driver_info": e.DriverInfo, "properties": e.Properties,
	}, created)
	uuid = s.node(e.Name).UUID
	for _, mac := range e.MACs {
		s.until(http.MethodPost, "/v1/ports", map[string]any{"node_uuid": uuid, "address": mac, "pxe_enabled": mac == e.MACs[0]}, created)
	}
	return uuid
}

// machineOf returns the machine that a node is.
func (s *site) machineOf(n string) *rack.Machine {
	m := s.rack.Machine(n)
	if m == nil {
		s.t.Fatalf("the rack has no machine %s", n)
	}
	return m
}

// instance says what is to be deployed; with the wrong checksum, from
// elsewhere, since the appliance knows what it keeps.
func (s *site) instance(sum string) map[string]any {
	if sum == s.wrong {
		return map[string]any{"image_source": s.image.URL + "/tiny.img", "image_checksum": sum}
	}
	return map[string]any{"image_source": imageName}
}

func (s *site) setInstance(node, sum string) {
	s.t.Helper()
	if r := s.until(http.MethodPatch, "/v1/nodes/"+node, set("/instance_info", s.instance(sum)), func(r answer) bool {
		return r.ok() || r.status == http.StatusBadRequest
	}); !r.ok() {
		s.t.Fatalf("set instance_info of %s: %s", node, r)
	}
}

// recover brings a node to the state that a task should have led to, as a
// person would who has read the error.
func (s *site) recover(m *rack.Machine, uuid string, goal task) {
	s.t.Helper()
	asks := map[string]map[string]task{
		"enroll":        {"": {name: "verify", path: "provision", body: provision("manage")}},
		"manageable":    {"": {name: "clean", path: "provision", body: provision("provide")}},
		"clean failed":  {"": {name: "manage", path: "provision", body: provision("manage")}},
		"available":     {"": life[2], "manageable": life[10]},
		"deploy failed": {"": life[2], "available": life[7], "manageable": life[7]},
		"active":        {"": life[7]},
	}
	if goal.wrong {
		s.setInstance(uuid, s.wrong)
		asks["available"][""] = goal
	}
	for range 20 {
		n := s.settle(uuid)
		if n.State == goal.want {
			if goal.path != "power" || n.Power == goal.power {
				return
			}
			s.ask(uuid, goal)
			continue
		}
		if n.Maintenance {
			s.until(http.MethodDelete, "/v1/nodes/"+uuid+"/maintenance", nil, answer.ok)
		}
		next, ok := asks[n.State][goal.want]
		if !ok {
			next = asks[n.State][""]
		}
		s.ask(uuid, next)
	}
	s.v.violated("%s cannot be brought to %q by any means; it is %+v\n%s", m.Name(), goal.want, s.node(uuid), describe(m))
	s.t.FailNow()
}

// describe says what a machine is at, for errors.
func describe(m *rack.Machine) string {
	events, _ := m.Journal()
	text := fmt.Sprintf("%+v", m.Status())
	for _, e := range events[max(0, len(events)-25):] {
		text += fmt.Sprintf("\n  %d %s start %d %s %s %s %s %s %d", e.Seq, e.Time.Format("05.000"), e.Start, e.Kind, e.By, e.What, e.Text, e.Disk, e.Bytes)
	}
	return text
}

// imageSize is how many bytes an image is, driveSize how many a config drive
// and the repair of a partition table may take.
var imageSize = int64(len(tinyos.Image()))

const driveSize = 64 << 20

// chosenDisk is the agent's name of the disk that begin chose.
func chosenDisk(m *rack.Machine) string {
	disks := m.Spec().Disks
	if len(disks) == 1 {
		return diskName(disks[0], 0)
	}
	return diskName(disks[1], 1)
}

// diskName is what a kernel calls the n-th disk of its kind.
func diskName(d sim.Disk, n int) string {
	switch d.Bus {
	case hardware.EMMC:
		return fmt.Sprintf("/dev/mmcblk%d", n)
	case sim.NVMe:
		return fmt.Sprintf("/dev/nvme%dn1", n)
	case sim.VirtioBlk:
		return "/dev/vd" + string(rune('a'+n))
	}
	return "/dev/sd" + string(rune('a'+n))
}
