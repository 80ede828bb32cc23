package pxe_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"bessemer/pxe"
	"bessemer/pxe/dhcp"
	"bessemer/pxe/httpd"
	"bessemer/pxe/ipxe"
	"bessemer/pxe/ra"
	"bessemer/pxe/tftp"
	"bessemer/store"
	"bessemer/store/storetest"
)

// The servers are tested with real clients in network namespaces of the test's
// own: one with a bridge and the servers, one with the clients.

const inNamespace = "BESSEMER_TEST_NETNS"

func TestWithRealClients(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make network namespaces")
	}
	for _, tool := range []string{"ip", "nsenter", "sleep"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInNamespace$", "-test.v", "-test.timeout=90s")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(err.Error(), "operation not permitted") {
		t.Skip("may not make network namespaces here")
	}
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// A rack is the namespace that the test runs in, and the clients' one.
type rack struct {
	t      *testing.T
	pid    int // of the process that holds the clients' namespace
	db     *store.DB
	rec    *storetest.Recorder
	booter *booter
	dhcp   *dhcp.Server
	ra     *ra.Responder
}

const (
	bridge = "br0" // 10.9.0.1/16; the servers' interface
	client = "c0"  // in the clients' namespace
	wire   = "c1"  // another client's end, without address, in our namespace
	nodeA  = "52:54:00:00:00:01"
)

// newRack builds the network and starts all servers.
func newRack(t *testing.T) *rack {
	r := &rack{t: t, db: storetest.Open(t), rec: &storetest.Recorder{}, booter: &booter{nodes: map[string]pxe.Boot{}}}
	hold := exec.Command("sleep", "600")
	hold.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := hold.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hold.Process.Kill(); _ = hold.Wait() })
	r.pid = hold.Process.Pid
	r.ip("link set lo up")
	r.makeBridge()
	r.ip("link add s1 type veth peer name " + wire)
	r.ip("link set s1 master br0 up")
	r.ip("link set " + wire + " up")
	r.enroll(nodeA)
	r.serve()
	return r
}

func (r *rack) makeBridge() {
	r.ip("link add br0 type bridge forward_delay 0")
	r.ip("addr add 10.9.0.1/16 dev br0")
	r.ip("link set br0 up")
	r.ip("link add s0 type veth peer name c0")
	r.ip("link set s0 master br0 up")
	r.ip("link set c0 netns " + strconv.Itoa(r.pid))
	r.client("ip", "link", "set", "lo", "up")
	r.client("ip", "link", "set", "c0", "up")
}

func (r *rack) ip(args string) {
	r.t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		r.t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

// client runs a program in the clients' namespace.
func (r *rack) client(name string, args ...string) string {
	r.t.Helper()
	out, err := r.tryClient(name, args...)
	if err != nil {
		r.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func (r *rack) tryClient(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	out, err := r.command(ctx, name, args...).CombinedOutput()
	return string(out), err
}

func (r *rack) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", strconv.Itoa(r.pid), "-n", name}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (r *rack) enroll(mac string) {
	r.t.Helper()
	node := "node-of-" + mac
	err := r.db.Update(func(tx *store.Tx) error {
		return store.Ports.Put(tx, &store.Port{UUID: "port-" + mac, NodeUUID: node, Address: mac, PXEEnabled: true})
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.booter.set(mac, pxe.Boot{Action: pxe.Ramdisk, Node: node, Run: 1, Token: "tok-" + node})
}

func rackConfig() dhcp.Config {
	return dhcp.Config{
		Interface: bridge, Address: netip.MustParseAddr("10.9.0.1"), Mode: dhcp.Full, BaseURL: "http://10.9.0.1:6386",
		First: netip.MustParseAddr("10.9.16.0"), Last: netip.MustParseAddr("10.9.47.255"), Subnet: netip.MustParsePrefix("10.9.0.0/16"),
		Gateway: netip.MustParseAddr("10.9.0.1"), Unknown: 4096, Log: zerolog.Nop(),
	}
}

func (r *rack) newDHCP(cfg dhcp.Config) *dhcp.Server {
	r.t.Helper()
	s, err := dhcp.New(cfg, r.db, r.booter, r.rec)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rack) serve() {
	r.t.Helper()
	r.dhcp = r.newDHCP(rackConfig())
	files := ipxe.Builtin()
	ts := tftp.New(tftp.Config{
		Address: netip.MustParseAddrPort("10.9.0.1:69"), Files: files, Booter: r.booter, Owner: r.dhcp.Owner, Recorder: r.rec, Log: zerolog.Nop(),
	})
	r.ra = ra.New(ra.Config{Interface: bridge, Log: zerolog.Nop()})
	h, err := httpd.New(httpd.Config{
		Booter: r.booter, BaseURL: "http://10.9.0.1:6386", NBPs: files, Owner: r.dhcp.Owner, Recorder: r.rec, Log: zerolog.Nop(),
		Ramdisk: ramdiskOf(bytes.Repeat([]byte("kernel"), 1000), bytes.Repeat([]byte("initrd"), 4<<20)),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "10.9.0.1:6386")
	if err != nil {
		r.t.Fatal(err)
	}
	web := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = web.Serve(l) }()
	r.t.Cleanup(func() { _ = web.Close() })
	start(r.t, r.dhcp)
	start(r.t, ts)
	start(r.t, r.ra)
}

type component interface {
	Open() error
	Run(context.Context) error
}

// start runs a server until the returned function is called or the test ends.
func start(t *testing.T, c component) (stop func()) {
	t.Helper()
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

func ramdiskOf(kernel, initrd []byte) func(string) (*pxe.File, error) {
	return func(name string) (*pxe.File, error) {
		content := kernel
		if name == httpd.Initrd {
			content = initrd
		}
		return fileOf(content), nil
	}
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

func fileOf(content []byte) *pxe.File {
	return &pxe.File{ReadSeekCloser: memory{bytes.NewReader(content)}, Size: int64(len(content)), Modified: time.Unix(1, 0)}
}

// A booter is a conductor that knows some nodes.
type booter struct {
	mu    sync.Mutex
	nodes map[string]pxe.Boot // by MAC
	files map[string][]byte   // by token/name
}

func (b *booter) set(mac string, boot pxe.Boot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[mac] = boot
}

func (b *booter) Boot(_ context.Context, m pxe.Machine) pxe.Boot {
	b.mu.Lock()
	defer b.mu.Unlock()
	if boot, ok := b.nodes[m.MAC.String()]; ok {
		return boot
	}
	return pxe.Boot{Action: pxe.Retry}
}

func (b *booter) File(_ context.Context, token, name string) (*pxe.File, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	content, ok := b.files[token+"/"+name]
	if !ok {
		return nil, fmt.Errorf("token: %w", pxe.ErrNoFile)
	}
	return fileOf(content), nil
}
