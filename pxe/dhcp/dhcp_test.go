package dhcp

import (
	"context"
	"flag"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/rs/zerolog"

	"bessemer/pxe"
	"bessemer/store"
	"bessemer/store/storetest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// A booter is a conductor that knows some nodes and notes who asked.
type booter struct {
	mu    sync.Mutex
	nodes map[string]pxe.Boot // by MAC
	asked []pxe.Machine
	panic bool
}

func (b *booter) Boot(_ context.Context, m pxe.Machine) pxe.Boot {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.panic {
		panic("booter")
	}
	b.asked = append(b.asked, m)
	if boot, ok := b.nodes[m.MAC.String()]; ok {
		return boot
	}
	return pxe.Boot{Action: pxe.Retry}
}

func (b *booter) File(context.Context, string, string) (*pxe.File, error) { return nil, pxe.ErrNoFile }

func (b *booter) last() pxe.Machine {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) == 0 {
		return pxe.Machine{}
	}
	return b.asked[len(b.asked)-1]
}

func testConfig() Config {
	return Config{
		Interface: "eth9", Address: netip.MustParseAddr("10.9.0.1"), Mode: Full, BaseURL: "http://10.9.0.1:6386",
		First: netip.MustParseAddr("10.9.0.100"), Last: netip.MustParseAddr("10.9.0.119"),
		Subnet: netip.MustParsePrefix("10.9.0.0/24"), Gateway: netip.MustParseAddr("10.9.0.254"),
		DNS: []netip.Addr{netip.MustParseAddr("10.9.0.53")}, LeaseTime: 10 * time.Minute, Unknown: 4,
		Log: zerolog.Nop(),
	}
}

const (
	enrolledMAC = "52:54:00:00:00:01"
	disabledMAC = "52:54:00:00:00:02"
	nodeUUID    = "11111111-2222-3333-4444-555555555555"
)

type bench struct {
	*Server
	db     *store.DB
	booter *booter
	rec    *storetest.Recorder
}

// newBench makes a server that knows one node with a port that boots and one
// that does not.
func newBench(t testing.TB, cfg Config) *bench {
	t.Helper()
	db := storetest.Open(t)
	putPort(t, db, enrolledMAC, true)
	putPort(t, db, disabledMAC, false)
	return newBenchOn(t, cfg, db)
}

func newBenchOn(t testing.TB, cfg Config, db *store.DB) *bench {
	t.Helper()
	b := &bench{db: db, rec: &storetest.Recorder{}, booter: &booter{nodes: map[string]pxe.Boot{
		enrolledMAC: {Action: pxe.Ramdisk, Node: nodeUUID, Run: 7, Trace: "t", Token: "secret"},
	}}}
	var err error
	if b.Server, err = New(cfg, db, b.booter, b.rec); err != nil {
		t.Fatal(err)
	}
	return b
}

func putPort(t testing.TB, db *store.DB, mac string, boots bool) {
	t.Helper()
	err := db.Update(func(tx *store.Tx) error {
		return store.Ports.Put(tx, &store.Port{UUID: "p-" + mac, NodeUUID: nodeUUID, Address: mac, PXEEnabled: boots})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func hw(s string) net.HardwareAddr {
	m, err := net.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return m
}

// message makes a request of the given type.
func message(t testing.TB, mt dhcpv4.MessageType, mac string, mods ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithMessageType(mt), dhcpv4.WithHwAddr(hw(mac))}, mods...)...)
	if err != nil {
		t.Fatal(err)
	}
	m.TransactionID = dhcpv4.TransactionID{1, 2, 3, 4}
	return m
}

func raw(code uint8, value string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(code), []byte(value)))
}

func requested(ip string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(ip)))
}

func server(ip string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(ip)))
}

func has(ip string) dhcpv4.Modifier {
	return func(d *dhcpv4.DHCPv4) { d.ClientIPAddr = net.ParseIP(ip) }
}

// ask sends a request through parser and handlers, as the socket loop does.
func (b *bench) ask(t testing.TB, req *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	t.Helper()
	parsed, err := parse(req.ToBytes())
	if err != nil {
		t.Fatal(err)
	}
	return b.Answer(t.Context(), parsed, portServer)
}

// take gets an address by DISCOVER and REQUEST.
func (b *bench) take(t testing.TB, mac string, mods ...dhcpv4.Modifier) netip.Addr {
	t.Helper()
	offer := b.ask(t, message(t, dhcpv4.MessageTypeDiscover, mac, mods...))
	if offer == nil {
		t.Fatalf("%s: no offer", mac)
		return netip.Addr{}
	}
	ack := b.ask(t, message(t, dhcpv4.MessageTypeRequest, mac, append(mods, requested(offer.YourIPAddr.String()), server("10.9.0.1"))...))
	if ack == nil || ack.MessageType() != dhcpv4.MessageTypeAck || !ack.YourIPAddr.Equal(offer.YourIPAddr) {
		t.Fatalf("%s: offered %s, then got %v", mac, offer.YourIPAddr, ack)
		return netip.Addr{}
	}
	return addr(ack.YourIPAddr)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got), run with -update if that is right:\n%s", path, diff)
	}
}

// TestNoAddressIsKnown has a range of one address that another machine has: the
// node's trace and the booter hear why it gets none.
func TestNoAddressIsKnown(t *testing.T) {
	cfg := testConfig()
	cfg.Last, cfg.Unknown = cfg.First, 0
	b := newBench(t, cfg)
	ctx := t.Context()
	if b.Answer(ctx, message(t, dhcpv4.MessageTypeDiscover, "52:54:00:00:00:09"), portServer) == nil {
		t.Fatal("no offer from a range with a free address")
	}
	if got := b.Answer(ctx, message(t, dhcpv4.MessageTypeDiscover, enrolledMAC), portServer); got != nil {
		t.Fatalf("an offer from a full range: %v", got)
	}
	const why = "no free address: widen dhcp.range, 10.9.0.100-10.9.0.100 is used up"
	if got := b.booter.last().What; got != "DHCP DISCOVER, left without an answer: "+why {
		t.Errorf("the booter hears %q", got)
	}
	ms := b.rec.Messages()
	last := ms[len(ms)-1]
	if last.Kind != store.Reply || last.Outcome != store.Failed || last.Error != why || last.Node != nodeUUID || last.ReplyTo != ms[len(ms)-2].Seq {
		t.Errorf("the trace ends with %+v", last)
	}
}
