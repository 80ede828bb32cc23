//go:build linux

// Package lab builds a rack for tests out of Linux's own parts: a network
// namespace with a provisioning network and a network of management
// controllers, QEMU machines with real firmware plugged into the first, and
// controllers (our own Redfish service, OpenIPMI's ipmi_sim) on the second.
// It needs root.
//
// Everything ends with the test that made it, also when that fails or panics;
// what a killed test has left behind is removed by the next one.
package lab

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// Addresses within a lab.
var (
	// Appliance is the address on the provisioning network that the
	// appliance serves machines at, the network being [Network].
	Appliance = netip.MustParseAddr("192.0.2.1")
	// Network is the provisioning network.
	Network = netip.MustParsePrefix("192.0.2.0/24")
	// Controllers is the network of management controllers.
	Controllers = netip.MustParsePrefix("198.51.100.0/24")
)

// Bridge is the network interface of the provisioning network, that the
// appliance listens on.
const Bridge = "prov"

const controllerBridge = "oob"

// A Lab is a network namespace with the two networks in it.
type Lab struct {
	// Name is the name of the network namespace, as ip netns knows it.
	Name string
	// Dir holds everything that the machines and controllers write.
	Dir string

	t           testing.TB
	taps        int
	controllers netip.Addr // the last one given
}

var labs atomic.Int32

// New makes a lab, or skips the test with the reason why it cannot.
func New(t testing.TB) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("no ip command (Debian package iproute2)")
	}
	removeLeftovers(t)
	l := &Lab{
		Name:        fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), labs.Add(1)),
		t:           t,
		controllers: netip.MustParseAddr("198.51.100.9"),
	}
	// Not t.TempDir: its long names do not fit a socket's address.
	dir, err := os.MkdirTemp("", l.Name+"-")
	if err != nil {
		t.Fatal(err)
	}
	l.Dir = dir
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l.ip("netns", "add", l.Name)
	t.Cleanup(func() {
		if err := remove(l.Name); err != nil {
			t.Errorf("remove lab: %v", err)
		}
	})
	l.inside("link", "set", "lo", "up")
	l.bridge(Bridge, netip.PrefixFrom(Appliance, Network.Bits()))
	l.bridge(controllerBridge, netip.PrefixFrom(Controllers.Addr().Next(), Controllers.Bits()))
	return l
}

// bridge makes a network. It has no carrier until a machine is on.
func (l *Lab) bridge(name string, addr netip.Prefix) {
	l.t.Helper()
	l.inside("link", "add", name, "type", "bridge", "forward_delay", "0", "stp_state", "0")
	l.inside("addr", "add", addr.String(), "dev", name)
	l.inside("link", "set", name, "up")
}

// AddTap makes a tap device on the provisioning network, a machine's cable,
// and returns its name.
func (l *Lab) AddTap() string {
	l.t.Helper()
	l.taps++
	name := fmt.Sprintf("tap%d", l.taps)
	l.inside("tuntap", "add", "dev", name, "mode", "tap")
	l.inside("link", "set", name, "master", Bridge, "up")
	return name
}

// Controller gives out an address for a management controller.
func (l *Lab) Controller() netip.Addr {
	l.t.Helper()
	l.controllers = l.controllers.Next()
	l.inside("addr", "add", netip.PrefixFrom(l.controllers, Controllers.Bits()).String(), "dev", controllerBridge)
	return l.controllers
}

// Prefix is what to put before a command line to run it in the lab. The
// command replaces it: it has the same process id.
func (l *Lab) Prefix() []string { return []string{"ip", "netns", "exec", l.Name} }

// Command prepares a command that runs in the lab. It is killed when ctx ends.
// Whoever starts it waits for it.
func (l *Lab) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	line := append(append(l.Prefix(), name), args...)
	return exec.CommandContext(ctx, line[0], line[1:]...)
}

// inside runs ip within the namespace.
func (l *Lab) inside(args ...string) {
	l.t.Helper()
	l.ip(append([]string{"-n", l.Name}, args...)...)
}

func (l *Lab) ip(args ...string) {
	l.t.Helper()
	if err := ip(args...); err != nil {
		l.t.Fatal(err)
	}
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
