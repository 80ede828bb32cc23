package boot

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// testModules has a driver with dependencies, one with soft dependencies that
// point at each other, and records what is given to the kernel.
func testModules(t *testing.T, cmdline string) (*Modules, *[]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"modules.dep": "kernel/drivers/net/virtio_net.ko: kernel/net/net_failover.ko kernel/net/failover.ko\n" +
			"kernel/net/net_failover.ko: kernel/net/failover.ko\nkernel/net/failover.ko:\n" +
			"kernel/a.ko:\nkernel/b.ko:\nkernel/crypto/crc32c-generic.ko:\n",
		"modules.alias":   "alias virtio:d00000001v* virtio_net\nalias crc32c crc32c_generic\nalias pci:v00008086d* a\nalias pci:v00008086d0000100Esv*sd* b\n",
		"modules.softdep": "softdep a pre: b post: crc32c-generic\nsoftdep b pre: a\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := OpenModules(dir, ParseCmdline(cmdline).Args)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	loaded := &[]string{}
	m.insert = func(file, params string) error {
		mu.Lock()
		defer mu.Unlock()
		*loaded = append(*loaded, strings.TrimSpace(moduleName(file)+" "+params))
		return nil
	}
	return m, loaded
}

func TestLoadInOrder(t *testing.T) {
	for _, tt := range []struct {
		name, cmdline, module string
		want                  []string
	}{
		{"dependencies first", "", "virtio-net", []string{"failover", "net_failover", "virtio_net"}},
		{"soft dependencies around, even in a circle", "", "a", []string{"b", "a", "crc32c_generic"}},
		{"parameters of the command line", "virtio_net.napi_tx=0 failover.x=1 failover.y=2", "virtio_net", []string{"failover x=1 y=2", "net_failover", "virtio_net napi_tx=0"}},
		{"refused by the command line", "modprobe.blacklist=foo,virtio-net", "virtio_net", nil},
		{"not there, so built in or not needed", "", "ext4", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, loaded := testModules(t, tt.cmdline)
			for range 2 { // the second time does nothing
				if err := m.Load(tt.module); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(tt.want, *loaded, cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); d != "" {
				t.Errorf("loaded (-want +got):\n%s", d)
			}
		})
	}
}

func TestLoadAtOnce(t *testing.T) {
	m, loaded := testModules(t, "")
	var wg sync.WaitGroup
	for range 20 {
		for _, name := range []string{"a", "b", "virtio_net"} {
			wg.Go(func() {
				if err := m.Load(name); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	got := slices.Sorted(slices.Values(*loaded))
	if d := cmp.Diff([]string{"a", "b", "crc32c_generic", "failover", "net_failover", "virtio_net"}, got); d != "" {
		t.Errorf("each module once (-want +got):\n%s", d)
	}
}

func TestLoadFails(t *testing.T) {
	m, _ := testModules(t, "")
	m.insert = func(file, _ string) error {
		if strings.Contains(file, "net_failover") {
			return unix.ENOEXEC
		}
		return nil
	}
	err := m.Load("virtio_net")
	if !errors.Is(err, unix.ENOEXEC) || !strings.Contains(err.Error(), "net_failover") {
		t.Errorf("got error %v, want one that names net_failover", err)
	}
	m.insert = func(string, string) error { return unix.EINVAL }
	if err := m.Load("a"); err == nil {
		t.Error("no error for a module that cannot be loaded")
	}
}

func TestMatch(t *testing.T) {
	m, _ := testModules(t, "")
	for _, tt := range []struct {
		modalias string
		want     []string
	}{
		{"virtio:d00000001v00001AF4\n", []string{"virtio_net"}},
		{"virtio:d00000002v00001AF4", nil},
		{"pci:v00008086d0000100Esv00001AF4sd00001100bc02sc00i00", []string{"a", "b"}},
		{"pci:v00008086", nil},
		{"", nil},
		{"crc32c", []string{"crc32c_generic"}},
	} {
		got := m.Match(tt.modalias)
		slices.Sort(got)
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.modalias, d)
		}
	}
}

func TestAliasWithSlashesAndClasses(t *testing.T) {
	x := parseAliases("alias of:N*T*Cfoo,bar/baz* one\nalias usb:v05ACp*d*dc*dsc*dp*ic03isc0[12]* two\nalias broken[ three\n# comment\n")
	for alias, want := range map[string][]string{
		"of:NxTyCfoo,bar/baz2":                       {"one"},
		"usb:v05ACp0001d0001dc00dsc00dp00ic03isc02x": {"two"},
		"usb:v05ACp0001d0001dc00dsc00dp00ic03isc03x": nil,
		"broken[": nil,
	} {
		if d := cmp.Diff(want, x.match(alias)); d != "" {
			t.Errorf("%s (-want +got):\n%s", alias, d)
		}
	}
}

func TestParseUevent(t *testing.T) {
	action, modalias := parseUevent("add@/devices/x\x00ACTION=add\x00DEVPATH=/devices/x\x00MODALIAS=pci:v1\x00SEQNUM=1\x00")
	if action != "add" || modalias != "pci:v1" {
		t.Errorf("got %q and %q", action, modalias)
	}
	if action, modalias = parseUevent("\x00=\x00garbage"); action != "" || modalias != "" {
		t.Errorf("got %q and %q from garbage", action, modalias)
	}
}

func TestDevicesLoadOnce(t *testing.T) {
	m, loaded := testModules(t, "")
	d := newDevices(m, func(err error) { t.Error(err) })
	if !d.device("virtio:d00000001v00001AF4") || d.device("virtio:d00000001v00001AF4") || d.device("") {
		t.Error("a modalias is new once, an empty one never")
	}
	d.wait()
	if len(*loaded) != 3 {
		t.Errorf("loaded %v", *loaded)
	}
	if wait := d.unsettled(); wait <= 0 || wait > settleQuiet {
		t.Errorf("just after a device appeared, settling takes %v", wait)
	}
}
