package hardware

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bessemer/agent/disk"
)

// TestBuild: the same seed makes the same machine, another index or seed
// another one, and nothing that tells machines apart occurs twice.
func TestBuild(t *testing.T) {
	for _, p := range Profiles() {
		if diff := cmp.Diff(p.Build("a", 3, 1, "/d"), p.Build("a", 3, 1, "/d")); diff != "" {
			t.Errorf("%s differs from itself:\n%s", p.Name, diff)
		}
		if p.Build("a", 3, 1, "/d").UUID == p.Build("a", 3, 2, "/d").UUID {
			t.Errorf("%s: the seed does not matter", p.Name)
		}
	}
	seen := map[string]string{}
	once := func(machine, value string) {
		if other, twice := seen[value]; twice {
			t.Errorf("%s and %s both have %s", machine, other, value)
		}
		seen[value] = machine
	}
	all := Profiles()
	for i := range 3000 {
		s := all[i%len(all)].Build(fmt.Sprint("m", i), i, 7, "/d")
		once(s.Name, s.UUID)
		for _, n := range s.NICs {
			mac, err := net.ParseMAC(n.MAC)
			if err != nil || mac[0]&3 != 2 {
				t.Fatalf("%s: %q is no locally administered address", s.Name, n.MAC)
			}
			once(s.Name, n.MAC)
		}
		for _, d := range s.Disks {
			once(s.Name, d.Serial)
			once(s.Name, wwn(d.Serial))
		}
	}
}

// TestProfiles: each is a machine that can be deployed without a hint, and says
// what it must.
func TestProfiles(t *testing.T) {
	if n := len(Profiles()); n < 7 {
		t.Errorf("%d profiles", n)
	}
	for _, p := range Profiles() {
		s := p.Build("m", 1, 1, t.TempDir())
		m := New(Config{Spec: s, Profile: p, BootMode: s.Modes[0], BootMAC: s.NICs[0].MAC})
		inv, err := m.Inventory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		root, why, err := disk.Select(inv.Disks, nil)
		if err != nil || why == "" || root.Serial == "" {
			t.Errorf("%s: root device %+v, %v", p.Name, root, err)
		}
		if again, err := Find(p.Name); err != nil || again.Model != p.Model {
			t.Errorf("%s is not found: %v", p.Name, err)
		}
		if len(inv.Interfaces) != len(p.NICs) || inv.Interfaces[0].LLDP == nil || inv.SystemVendor.SerialNumber != s.Serial || strings.ContainsAny(s.Serial, "a0A") && len(s.Serial) < 5 {
			t.Errorf("%s: inventory %+v", p.Name, inv)
		}
		if p.Driver != "redfish" && p.Driver != "ipmi" {
			t.Errorf("%s: driver %q", p.Name, p.Driver)
		}
		for i, d := range inv.Disks {
			if d.Size != s.Disks[i].Size || d.LogicalSectorSize != 512 || d.Transport == "" {
				t.Errorf("%s: disk %+v", p.Name, d)
			}
		}
	}
	if _, err := Find("nothing"); err == nil || !strings.Contains(err.Error(), "dell-r640") {
		t.Errorf("%v", err)
	}
}

// TestLargestDisk: a sparse file stands for a disk of eight terabytes.
func TestLargestDisk(t *testing.T) {
	s := supermicro.Build("m", 1, 1, t.TempDir())
	m := New(Config{Spec: s, Profile: supermicro})
	d, err := m.OpenDisk("/dev/sdc", true)
	if err != nil {
		t.Skipf("the file system of the temporary directory takes no file of %d bytes: %v", int64(size8TB), err)
	}
	defer d.Close()
	if _, err := d.WriteAt([]byte("end"), d.Size()-3); err != nil || d.Size() != size8TB {
		t.Errorf("%d bytes, %v", d.Size(), err)
	}
}
