//go:build linux

package hw

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"bessemer/agent/wire"
)

func TestInventory(t *testing.T) {
	x := rack()
	x["proc/cpuinfo"] = "processor\t: 0\nmodel name\t: Xeon\ncpu MHz\t\t: 2100.000\nflags\t\t: fpu vme\n\nprocessor\t: 1\nmodel name\t: Xeon\nflags\t\t: fpu vme\n"
	x["proc/meminfo"] = "MemTotal:       16000000 kB\nMemFree: 1 kB\n"
	x["sys/class/dmi/id/product_name"] = "PowerEdge R640\n"
	x["sys/class/dmi/id/product_serial"] = "To Be Filled By O.E.M.\n"
	x["sys/class/dmi/id/sys_vendor"] = "Dell Inc.\n"
	x["sys/class/dmi/id/product_uuid"] = "4C4C4544-0042-4810\n"
	x["sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"] = "\x06\x00\x00\x00\x01"
	nic := "sys/devices/pci0000:00/0000:00:19.0"
	x.device(nic, "pci", "vendor", "0x8086\n", "device", "0x1533\n")
	x[nic+"/driver"] = "->../../../bus/pci/drivers/igb"
	x["sys/class/net/eno1/device"] = "->../../../../" + nic
	x["sys/class/net/eno1/speed"] = "1000\n"
	x["sys/class/net/bond0/speed"] = "1000\n"
	m := x.machine(t)
	mac := net.HardwareAddr{0x52, 0x54, 0, 1, 2, 3}
	m.o.BootMAC = mac
	m.o.LLDP = func(card string) any { return "heard by " + card }
	cidr := func(s string) *net.IPNet { ip, n, _ := net.ParseCIDR(s); return &net.IPNet{IP: ip, Mask: n.Mask} }
	m.net = func() ([]card, error) {
		return []card{
			{name: "lo"},
			{name: "bond0", mac: mac, ethernet: true},
			{
				name: "eno1", mac: net.HardwareAddr{2, 0, 0, 0, 0, 1}, permanent: mac, ethernet: true, carrier: true,
				addresses: []*net.IPNet{cidr("169.254.1.1/16"), cidr("192.0.2.7/24"), cidr("fe80::1/64"), cidr("2001:db8::7/64")},
			},
		}, nil
	}
	inv, err := m.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	on := true
	want := wire.Inventory{
		Interfaces: []wire.Interface{{
			Name: "eno1", MACAddress: "52:54:00:01:02:03", IPv4Address: "192.0.2.7", IPv6Address: "2001:db8::7", HasCarrier: true,
			Vendor: "0x8086", Product: "0x1533", SpeedMbps: 1000, PCIAddress: "0000:00:19.0", Driver: "igb", LLDP: "heard by eno1",
		}},
		CPU:          wire.CPU{ModelName: "Xeon", Frequency: "2100.000", Count: 2, Architecture: machineArch(), Flags: []string{"fpu", "vme"}},
		Memory:       wire.Memory{Total: 16000000 << 10, PhysicalMB: 15744},
		SystemVendor: wire.SystemVendor{ProductName: "PowerEdge R640", Manufacturer: "Dell Inc.", UUID: "4c4c4544-0042-4810"},
		Boot:         wire.BootInfo{CurrentBootMode: "uefi", PXEInterface: "52:54:00:01:02:03", SecureBoot: &on},
		Disks:        inv.Disks, Hostname: inv.Hostname,
	}
	if d := cmp.Diff(want, inv); d != "" {
		t.Errorf("inventory (-want +got):\n%s", d)
	}
	if len(inv.Disks) != 6 {
		t.Errorf("%d disks, want 6", len(inv.Disks))
	}
}

func TestInventoryOfABareTree(t *testing.T) {
	m := tree{"sys/block/.keep": ""}.machine(t)
	m.net = func() ([]card, error) { return nil, nil }
	inv, err := m.Inventory(t.Context())
	if err != nil {
		t.Fatalf("a machine that tells little is no error: %v", err)
	}
	if inv.Boot.CurrentBootMode != "bios" || inv.Boot.SecureBoot != nil || inv.Disks == nil || inv.Interfaces == nil {
		t.Errorf("got %+v", inv)
	}
	if m.EFI() != nil {
		t.Error("EFI variables without EFI")
	}
}

func TestModuleMB(t *testing.T) {
	for _, tt := range []struct {
		size     uint16
		extended uint32
		want     int64
	}{{0, 0, 0}, {0xffff, 0, 0}, {16384, 0, 16384}, {0x7fff, 65536, 65536}, {0x8000 | 4096, 0, 4}} {
		if got := moduleMB(tt.size, tt.extended); got != tt.want {
			t.Errorf("%#x, %d: got %d MB, want %d", tt.size, tt.extended, got, tt.want)
		}
	}
}

func TestLogsHideSecrets(t *testing.T) {
	m := tree{"proc/cmdline": "ro ipa-agent-token=s3cret-token ipa-api-url=http://h:1 root_password=\"a b\" quiet\n"}.machine(t)
	m.o.Logs = map[string]func() []byte{"../console": func() []byte { return []byte(`GET /v1/x?agent_token=abcdef&wait=1 {"token":1}`) }}
	logs := map[string]string{}
	for name, r := range m.Logs() {
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		logs[name] = string(b)
	}
	want := map[string]string{
		"cmdline": "ro ipa-agent-token=*** ipa-api-url=http://h:1 root_password=*** quiet\n",
		"console": `GET /v1/x?agent_token=***&wait=1 {"token":1}`,
	}
	if d := cmp.Diff(want, logs); d != "" {
		t.Errorf("logs (-want +got):\n%s", d)
	}
}

func TestKernelLine(t *testing.T) {
	for in, want := range map[string]string{
		"6,339,5140900,-;NET: Registered\n SUBSYSTEM=net\n": "[    5.140900] NET: Registered\n",
		"odd": "\n",
	} {
		if got := kernelLine(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// bmcLAN answers like a BMC whose LAN is not on the first channel.
func bmcLAN(address [4]byte) func(netFn, command byte, data ...byte) ([]byte, error) {
	return func(netFn, command byte, data ...byte) ([]byte, error) {
		switch {
		case data[0] < 3:
			return nil, io.ErrUnexpectedEOF
		case netFn == netApp && command == getChannelInfo:
			medium := byte(5) // serial
			if data[0] >= 8 {
				medium = mediumLAN
			}
			return []byte{data[0], medium, 1, 0, 0, 0, 0, 0, 0}, nil
		case data[1] == paramIP && data[0] == 8:
			return []byte{0x11, 0, 0, 0, 0}, nil
		case data[1] == paramIP:
			return append([]byte{0x11}, address[:]...), nil
		}
		return append([]byte{0x11, 0, 0x80}, net.ParseIP("fe80::1")...), nil
	}
}

func TestLANAddresses(t *testing.T) {
	if v4, v6 := lanAddresses(bmcLAN([4]byte{192, 0, 2, 9})); v4 != "192.0.2.9" || v6 != "" {
		t.Errorf("got %q and %q", v4, v6)
	}
	if v4, v6 := lanAddresses(func(byte, byte, ...byte) ([]byte, error) { return nil, nil }); v4 != "" || v6 != "" {
		t.Errorf("got %q and %q of a BMC that says nothing", v4, v6)
	}
}

// The kernel's ABI on 64-bit machines.
func TestStructSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("sizes are of 64-bit machines")
	}
	for name, got := range map[string][2]uintptr{
		"sg_io_hdr": {unsafe.Sizeof(sgRequest{}), 88}, "ipmi_req": {unsafe.Sizeof(ipmiRequest{}), 40}, "ipmi_recv": {unsafe.Sizeof(ipmiReceived{}), 48},
		"send": {ipmiSend, 0x8028690d}, "receive": {ipmiReceive, 0xc030690b},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %#x, want %#x", name, got[0], got[1])
		}
	}
}

func TestCacheWindow(t *testing.T) {
	var log []string
	say := func(what string) func(off, n int64) error {
		return func(off, n int64) error {
			log = append(log, strings.Join([]string{what, mib(off), mib(n)}, " "))
			return nil
		}
	}
	w := cacheWindow{enter: say("enter"), leave: say("leave")}
	for off := int64(0); off < 24<<20; off += 1 << 20 {
		if err := w.add(off, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"enter 0 8", "enter 8 8", "leave 0 8", "enter 16 8", "leave 8 8"}
	if d := cmp.Diff(want, log); d != "" {
		t.Errorf("what the kernel is told (-want +got):\n%s", d)
	}
}

func mib(n int64) string { return strconv.FormatInt(n>>20, 10) }
