//go:build linux

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bessemer/bmc/sim/lab"
	"bessemer/pxe/ramdisk"
	"bessemer/server/client"
)

// A benchRack is our appliance, the peers, and their clients, each in a network
// namespace of its own: a cable leads from the clients to us, another one to
// the peers.
type benchRack struct {
	clients, peers *lab.Lab
	app            *appliance
	nodes          []string // UUIDs
	macs           []string // of their ports
}

// The networks of the two cables; machines get addresses of the upper half.
var (
	ourNet  = netip.MustParsePrefix("10.67.0.1/16")
	peerNet = netip.MustParsePrefix("10.68.0.1/16")
)

const (
	ourCable  = "ours0" // at both ends
	peerCable = "peers0"
	// maxClients is how many addresses the clients' end of a cable has.
	maxClients = 8
)

// benchServices measures what serves all the time: API and boot servers.
func benchServices(t *testing.T, b *bench) {
	r := &benchRack{clients: lab.New(t), peers: lab.New(t)}
	l := lab.New(t)
	cable(t, r.clients, l, ourCable, ourNet)
	cable(t, r.clients, r.peers, peerCable, peerNet)
	r.app = benchAppliance(t, l)
	benchAPI(t, b, r)
	benchDHCP(t, b, r)
	benchTFTP(t, b, r)
	benchHTTP(t, b, r)
}

// cable connects two labs. The server's end has the first address of net, the
// clients' end those from the eleventh on.
func cable(t *testing.T, clients, server *lab.Lab, name string, net netip.Prefix) {
	t.Helper()
	ip := func(args ...string) {
		t.Helper()
		if said, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, said)
		}
	}
	ip("link", "add", name, "netns", clients.Name, "type", "veth", "peer", "name", name, "netns", server.Name)
	ip("-n", server.Name, "addr", "add", net.String(), "dev", name)
	for i := range maxClients {
		ip("-n", clients.Name, "addr", "add", netip.PrefixFrom(clientAddr(net, i), net.Bits()).String(), "dev", name)
	}
	ip("-n", server.Name, "link", "set", name, "up")
	ip("-n", clients.Name, "link", "set", name, "up")
}

// clientAddr is the address of a client on a cable.
func clientAddr(net netip.Prefix, client int) netip.Addr {
	a := net.Addr().As4()
	a[3] = byte(11 + client)
	return netip.AddrFrom4(a)
}

// Sizes of what the boot servers serve.
const (
	largeFile = 256 << 20
	smallFile = 4 << 10
	tftpFile  = 1 << 20 // the size of iPXE for UEFI
	tftpName  = "bench.bin"
)

// benchAppliance is an appliance with default settings but for the interface,
// whose ramdisk is a small kernel and a large initrd of no meaning, and which
// has a boot program more.
func benchAppliance(t *testing.T, l *lab.Lab) *appliance {
	t.Helper()
	return plainAppliance(t, l, fmt.Sprintf("provisioning: {interface: %s}\nramdisk: {build: never}\n", ourCable))
}

// plainAppliance is an appliance with default settings but for those given,
// and a client with a connection for each of many that ask at once.
func plainAppliance(t *testing.T, l *lab.Lab, settings string) *appliance {
	t.Helper()
	a := &appliance{lab: l, dir: filepath.Join(l.Dir, "appliance"), url: "http://127.0.0.1:6385", config: filepath.Join(l.Dir, "bessemer.yaml")}
	if err := os.WriteFile(a.config, []byte(fmt.Sprintf("data_dir: %s\n", a.dir)+settings), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if a.client, err = client.New(a.url, nil); err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DialContext: l.DialContext, MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	a.client.HTTP = &http.Client{Transport: tr}
	return a
}

// furnish makes the appliance's data directory anew, without a store.
func (r *benchRack) furnish(t *testing.T) {
	t.Helper()
	dir := r.app.dir
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	m, err := json.Marshal(ramdisk.Manifest{
		Format: 1, KernelVersion: "bench", Arch: "x86_64",
		Kernel: ramdisk.File{Size: smallFile}, Initrd: ramdisk.File{Size: largeFile},
	})
	if err != nil {
		t.Fatal(err)
	}
	writeSized(t, filepath.Join(dir, "ipxe", tftpName), tftpFile)
	writeSized(t, filepath.Join(dir, "ramdisk", ramdisk.KernelName), smallFile)
	writeSized(t, filepath.Join(dir, "ramdisk", ramdisk.InitrdName), largeFile)
	if err := os.WriteFile(filepath.Join(dir, "ramdisk/manifest.json"), m, 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeSized makes a file without holes.
func writeSized(t *testing.T, path string, size int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i * 7)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// launch starts the appliance, with flags of serve, and returns how long it
// took to the first answer.
func (a *appliance) launch(t *testing.T, args ...string) time.Duration {
	t.Helper()
	bin, err := filepath.Abs("bin/bessemer")
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	a.proc = a.lab.Start("appliance.log", a.settings, bin, append([]string{"--config", a.config, "serve"}, args...)...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !a.answers(ctx) {
		select {
		case <-a.proc.Ended():
			t.Fatalf("the appliance ended with exit code %d: %s", a.proc.ExitCode(), tail(a.proc.Log, 4000))
		case <-ctx.Done():
			t.Fatalf("the appliance does not answer: %s", tail(a.proc.Log, 4000))
		case <-time.After(2 * time.Millisecond):
		}
	}
	took := time.Since(begun)
	a.client.User, a.client.Password = "admin", a.password(t)
	return took
}

func (a *appliance) answers(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/v1", nil)
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

// startPeer starts a peer in its namespace and waits until it has its socket.
func (r *benchRack) startPeer(t *testing.T, socket string, line ...string) *lab.Process {
	t.Helper()
	p := r.peers.Start("peer.log", nil, line[0], line[1:]...)
	for range 100 {
		if out, err := r.peers.Command(t.Context(), "ss", "-Hlntu").Output(); err == nil && strings.Contains(string(out), socket) {
			return p
		}
		select {
		case <-p.Ended():
			t.Fatalf("%s ended with exit code %d: %s", line[0], p.ExitCode(), tail(p.Log, 4000))
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("%s does not listen on %s: %s", line[0], socket, tail(p.Log, 4000))
	return nil
}

// endPeer ends a peer, by force if it takes its time.
func endPeer(p *lab.Process) {
	if p.Signal(syscall.SIGTERM) == nil {
		select {
		case <-p.Ended():
		case <-time.After(3 * time.Second):
		}
	}
	p.Kill()
}

func hostPort(net netip.Prefix, port int) string {
	return netip.AddrPortFrom(net.Addr(), uint16(port)).String()
}
