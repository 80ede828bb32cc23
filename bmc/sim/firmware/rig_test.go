package firmware

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"bessemer/bmc/sim/flaw"
	"bessemer/pxe"
	"bessemer/pxe/dhcp"
	"bessemer/pxe/httpd"
	"bessemer/pxe/ipxe"
	"bessemer/pxe/tftp"
	"bessemer/store"
	"bessemer/store/storetest"
)

const (
	testMAC  = "52:54:00:00:00:01"
	testUUID = "16b7275a-4a72-508c-0102-030405060708"
	testPace = 0.004
)

// TestMain lets more tests run at a time than there are cores: machines that
// boot wait more than they work.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("16")
	}
	os.Exit(m.Run())
}

// A rig is the appliance's boot servers, as they are, on the loopback. It is a
// Wire.
type rig struct {
	dhcp    *dhcp.Server
	tftp    *tftp.Server
	db      *store.DB
	rec     *storetest.Recorder
	handler http.Handler
	base    string
	log     *safeBuffer

	mu     sync.Mutex
	nodes  map[string]pxe.Boot
	asked  []pxe.Machine
	paths  []string                          // of HTTP requests
	spoil  func(packet, reply []byte) []byte // changes DHCP replies
	files  map[string][]byte                 // served by TFTP
	middle *middle                           // between machine and TFTP server
	sums   [2]string
	noTFTP bool
}

func (r *rig) Boot(_ context.Context, m pxe.Machine) pxe.Boot {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, m)
	if b, ok := r.nodes[m.MAC.String()]; ok {
		return b
	}
	return pxe.Boot{Action: pxe.Retry}
}

func (r *rig) File(context.Context, string, string) (*pxe.File, error) { return nil, pxe.ErrNoFile }

func (r *rig) set(mac string, a pxe.Action) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[mac] = pxe.Boot{Action: a, Node: "node-" + mac, Args: []string{"ipa-agent-token=t"}}
}

func (r *rig) DHCP(ctx context.Context, packet []byte, port int) ([]byte, error) {
	reply, err := r.dhcp.Deliver(ctx, packet, port)
	if r.spoil != nil {
		reply = r.spoil(packet, reply)
	}
	return reply, err
}

func (r *rig) TFTP() netip.AddrPort {
	switch {
	case r.noTFTP:
		return netip.AddrPort{}
	case r.middle != nil:
		return r.middle.addr()
	}
	return r.tftp.Addr()
}

func (r *rig) Ramdisk() (kernel, initrd string) { return r.sums[0], r.sums[1] }

// newRig starts the servers; change, if not nil, alters the configuration of
// DHCP.
func newRig(t testing.TB, change func(*dhcp.Config)) *rig {
	t.Helper()
	r := &rig{db: storetest.Open(t), rec: &storetest.Recorder{}, nodes: map[string]pxe.Boot{}, log: &safeBuffer{}, files: ipxe.Builtin()}
	err := r.db.Update(func(tx *store.Tx) error {
		return store.Ports.Put(tx, &store.Port{UUID: "p", NodeUUID: "node-" + testMAC, Address: testMAC, PXEEnabled: true})
	})
	if err != nil {
		t.Fatal(err)
	}
	r.set(testMAC, pxe.Ramdisk)
	r.serveHTTP(t)
	cfg := dhcp.Config{
		Interface: "lo", Address: netip.MustParseAddr("127.0.0.1"), Mode: dhcp.Full, NoSockets: true, BaseURL: r.base,
		First: netip.MustParseAddr("127.64.1.0"), Last: netip.MustParseAddr("127.64.255.254"), Subnet: netip.MustParsePrefix("127.64.0.0/16"),
		Log: zerolog.New(r.log),
	}
	if change != nil {
		change(&cfg)
	}
	if r.dhcp, err = dhcp.New(cfg, r.db, r, r.rec); err != nil {
		t.Fatal(err)
	}
	r.tftp = tftp.New(tftp.Config{
		Address: netip.MustParseAddrPort("127.0.0.1:0"), AnyPort: true, Files: r.files, Booter: r, Owner: r.dhcp.Owner, Recorder: r.rec, Log: zerolog.Nop(),
	})
	if err := r.tftp.Open(); err != nil {
		t.Fatal(err)
	}
	run(t, r.dhcp.Run)
	run(t, r.tftp.Run)
	return r
}

// run runs a server until the test ends.
func run(t testing.TB, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

func (r *rig) serveHTTP(t testing.TB) {
	dir := t.TempDir()
	files := map[string][]byte{"kernel": testKernel(), "initrd": bytes.Repeat([]byte("initramfs"), 70000)}
	for i, name := range []string{"kernel", "initrd"} {
		sum := sha256.Sum256(files[name])
		r.sums[i] = hex.EncodeToString(sum[:])
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.paths = append(r.paths, req.Method+" "+req.URL.String()+" from "+strings.Split(req.RemoteAddr, ":")[0])
		h := r.handler
		r.mu.Unlock()
		h.ServeHTTP(w, req)
	}))
	t.Cleanup(s.Close)
	r.base = s.URL
	h, err := httpd.New(httpd.Config{
		Booter: r, BaseURL: r.base, NBPs: ipxe.Builtin(), Recorder: r.rec, Log: zerolog.Nop(),
		Ramdisk: httpd.Files(func() string { return filepath.Join(dir, "kernel") }, func() string { return filepath.Join(dir, "initrd") }),
		Owner:   func(ip netip.Addr) (net.HardwareAddr, bool) { return r.dhcp.Owner(ip) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.handler = h
}

// wrap puts a handler in front of the HTTP server.
func (r *rig) wrap(f func(next http.Handler) http.Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handler = f(r.handler)
}

// testKernel has the head of an x86-64 kernel, by which the server tells its
// architecture.
func testKernel() []byte {
	k := bytes.Repeat([]byte("kernel"), 50000)
	copy(k[0x202:], "HdrS")
	return k
}

func (r *rig) config(t testing.TB, mode string, quirks ...flaw.ID) Config {
	mac, err := net.ParseMAC(testMAC)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Wire: r, MAC: mac, UUID: testUUID, Mode: mode, Pace: testPace, Seed: 7, Flaws: flaw.NewSet(7, quirks...), Console: &safeBuffer{}, floor: 100 * time.Millisecond}
}

// netboot boots and shows the console when that fails.
func netboot(t testing.TB, c Config) (Boot, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	b, err := NetBoot(ctx, c)
	if b2, ok := c.Console.(*safeBuffer); ok {
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("console:\n%s", b2)
			}
		})
	}
	return b, err
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

var _ io.Writer = (*safeBuffer)(nil)
