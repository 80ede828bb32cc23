package rack

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/firmware"
	"bessemer/bmc/sim/flaw"
	"bessemer/pxe"
)

// TestMain is also the process of a rack that a test kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv("RACK_TEST_DIR"); dir != "" {
		if err := alone(dir, os.Getenv("RACK_TEST_WIRE")); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// alone runs a rack in a process of its own.
func alone(dir, wire string) error {
	r, err := New(Options{
		Dir: dir, Wire: firmware.NewRemote(wire), Seed: 7, Machines: 2, Profiles: []string{"tiny"}, BMC: mixed,
		Pace: 0.01, Log: zerolog.Nop(), Version: "1",
	})
	if err != nil {
		return err
	}
	ln, err := Listen(filepath.Join(dir, "sock"))
	if err != nil {
		return err
	}
	s := &http.Server{Handler: Handler(r)}
	go func() { _ = s.Serve(ln) }()
	if err := r.Open(); err != nil {
		return err
	}
	return errors.Join(r.Run(context.Background()), s.Close())
}

// TestKilledRack: a rack in a process of its own, driven by its socket, is
// killed in the middle, and comes back as after a power cut.
func TestKilledRack(t *testing.T) {
	t.Parallel()
	a := newAppliance(t)
	dir := t.TempDir()
	wire := filepath.Join(dir, "wire")
	ln, err := net.Listen("unix", wire)
	must(t, err)
	s := &http.Server{Handler: firmware.Handler(a)}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { s.Close() })
	c := NewClient(filepath.Join(dir, "sock"))
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "is one running?") {
		t.Errorf("no rack: %v", err)
	}

	p := spawn(t, dir, wire)
	waitFor(t, c)
	must(t, c.Power(t.Context(), "sim-001", bmc.On)) // an empty disk: it goes on to the network
	b := a.await()
	if _, err := a.write(b); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Turn(t.Context(), "sim-001", []flaw.ID{"B-08"}, nil); err != nil || len(got["sim-001"]) != 1 {
		t.Errorf("quirks %v, %v", got, err)
	}
	before, err := c.Status(t.Context())
	must(t, err)
	must(t, p.Process.Kill())
	_ = p.Wait() // it was killed
	a.set(pxe.Local)

	spawn(t, dir, wire)
	waitFor(t, c)
	after := before
	for end := time.Now().Add(patience); after[0].Stage != StageRunning && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if after, err = c.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	es, err := c.Journal(t.Context(), "sim-001")
	must(t, err)
	want := "power:on/hand start:uefi boot:network agent:runs write: power:on/cut start:uefi boot:disk home:"
	if got := shape(es); got != want {
		t.Errorf("journal\n%s, want\n%s", got, want)
	}
	for i := range before {
		before[i].Totals, before[i].Stage, before[i].Lease, before[i].Power = after[i].Totals, after[i].Stage, after[i].Lease, after[i].Power
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the machines are others now (-before +after):\n%s", diff)
	}
	if after[1].Stage != StageOff || after[1].Totals.Starts != 0 {
		t.Errorf("the machine that was off: %+v", after[1])
	}
	must(t, c.Down(t.Context()))
}

func spawn(t *testing.T, dir, wire string) *exec.Cmd {
	t.Helper()
	p := exec.Command(os.Args[0])
	p.Env = append(os.Environ(), "RACK_TEST_DIR="+dir, "RACK_TEST_WIRE="+wire)
	p.Stderr = os.Stderr
	must(t, p.Start())
	t.Cleanup(func() {
		_ = p.Process.Kill() // it may be over
		_ = p.Wait()
	})
	return p
}

func waitFor(t *testing.T, c *Client) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		_, err := c.Status(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestSameSeedSameMachines: the seed and the index fix a machine, and the
// directory keeps it.
func TestSameSeedSameMachines(t *testing.T) {
	type machine struct {
		Spec       sim.Spec
		Enrollment Enrollment
		Dice       [2]float64 // of the agent, of its first start
	}
	build := func(o Options) []machine {
		r, err := New(o)
		must(t, err)
		defer r.Close()
		var ms []machine
		for _, m := range r.Machines() {
			s := m.Spec()
			for i := range s.Disks {
				s.Disks[i].Path = ""
			}
			dice := m.dice("agent 1")
			ms = append(ms, machine{s, m.Enrollment(), [2]float64{dice(), dice()}})
		}
		return ms
	}
	network := netip.MustParsePrefix("127.32.96.0/24")
	few := func(seed uint64, n int) Options {
		return options(t, nil, func(o *Options) {
			o.Wire, o.Seed, o.Machines, o.Network, o.Profiles = deaf{}, seed, n, network, nil
		})
	}
	one, kept := build(few(1, 12)), few(1, 6)
	if diff := cmp.Diff(one[:6], build(kept)); diff != "" {
		t.Errorf("same seed, other machines:\n%s", diff)
	}
	kept.Seed, kept.Machines, kept.Network = 99, 12, netip.Prefix{} // what the directory has wins; more machines may come
	if diff := cmp.Diff(one, build(kept)); diff != "" {
		t.Errorf("same directory, other machines:\n%s", diff)
	}
	if cmp.Equal(one, build(few(2, 12))) {
		t.Error("another seed, same machines")
	}
	if one[0].Dice == one[1].Dice || one[0].Dice[0] == one[0].Dice[1] {
		t.Errorf("agents pause in step: %v, %v", one[0].Dice, one[1].Dice)
	}
}

// TestTwoRacks: racks that choose their addresses keep apart; those that are
// told to are told of every address that is taken.
func TestTwoRacks(t *testing.T) {
	one := newRack(t, nil, func(o *Options) { o.Wire, o.Machines, o.BMC = deaf{}, 3, mixed })
	two := newRack(t, nil, func(o *Options) { o.Wire, o.Machines, o.BMC = deaf{}, 3, mixed })
	if one.network == two.network {
		t.Fatalf("both racks are at %s", one.network)
	}
	three, err := New(options(t, nil, func(o *Options) {
		o.Wire, o.Machines, o.BMC = deaf{}, 3, mixed
		o.Network = netip.PrefixFrom(one.network, 24)
	}))
	must(t, err)
	err = three.Open()
	if err == nil {
		t.Fatal("two racks have the same addresses")
	}
	for _, m := range one.Machines() {
		if !strings.Contains(err.Error(), m.bmc.addr.String()) {
			t.Errorf("the error does not tell of %s: %v", m.bmc.addr, err)
		}
	}
	if _, err := New(options(t, nil, func(o *Options) { o.Wire, o.Dir = deaf{}, one.opts.Dir })); err == nil || !strings.Contains(err.Error(), "another rack") {
		t.Errorf("two racks in one directory: %v", err)
	}
}

// TestTLS: controllers speak HTTPS when they are asked to.
func TestTLS(t *testing.T) {
	t.Parallel()
	m := newRack(t, nil, func(o *Options) { o.Wire, o.TLS = deaf{}, true }).Machines()[0]
	info, err := driver(t, m).Identify(t.Context())
	if err != nil || info.SystemUUID != m.Spec().UUID || !strings.HasPrefix(m.Status().BMC, "https://") {
		t.Errorf("controller at %s: %+v, %v", m.Status().BMC, info, err)
	}
}

func TestBadOptions(t *testing.T) {
	_, err := New(Options{
		Machines: -1, Pace: -1, BMC: "snmp", Profiles: []string{"cray"}, Quirks: []flaw.ID{"X-99"},
		Network: netip.MustParsePrefix("192.0.2.0/24"),
	})
	for _, want := range []string{"directory", "wire", "-1 machines", "pace", "snmp", "cray", "X-99", "192.0.2.0/24"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not tell of %s: %v", want, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	first := netip.MustParseAddr("127.32.16.0")
	for _, i := range []int{0, 1, 249, 250, 251, 12345, 59999} {
		if got := indexOf(first, address(first, i)); got != i {
			t.Errorf("machine %d is at %s, where machine %d is", i, address(first, i), got)
		}
	}
	for _, a := range []string{"127.32.15.1", "127.32.16.0", "127.32.16.251", "::1"} {
		if i := indexOf(first, netip.MustParseAddr(a)); i != -1 {
			t.Errorf("machine %d is at %s", i, a)
		}
	}
}
