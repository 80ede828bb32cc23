package rack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"bessemer/agent/wire"
	"bessemer/bmc"
	"bessemer/bmc/ipmi"
	"bessemer/bmc/redfish"
	"bessemer/bmc/sim/tinyos"
	"bessemer/pxe"
	"bessemer/pxe/dhcp"
	"bessemer/pxe/httpd"
	"bessemer/pxe/ipxe"
	"bessemer/pxe/ramdisk"
	"bessemer/pxe/tftp"
	"bessemer/store/storetest"
)

const (
	token    = "tokentokentokentokentokentokentokentoken"
	nodeUUID = "11111111-2222-4333-8444-555555555555"
	// patience is how long a test waits for what must come; it measures nothing.
	patience = 5 * time.Minute
)

// An appliance is the real boot servers, and as much of a conductor as a
// machine's agent needs.
type appliance struct {
	t       *testing.T
	dhcp    *dhcp.Server
	tftp    *tftp.Server
	url     string
	sums    [2]string
	files   map[string][]byte
	beats   chan beat
	mu      sync.Mutex
	action  pxe.Action
	image   []byte
	sources []string // where agents asked from
}

type beat struct {
	wire.Heartbeat
	node string
}

// newAppliance serves machines until the test ends.
func newAppliance(t *testing.T) *appliance {
	t.Helper()
	kernel, initrd := ramdisk.StandIn()
	a := &appliance{
		t: t, action: pxe.Ramdisk, image: tinyos.Image(), beats: make(chan beat, 4096),
		files: map[string][]byte{httpd.Kernel: kernel, httpd.Initrd: initrd}, sums: [2]string{sum(kernel), sum(initrd)},
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a.url = "http://" + ln.Addr().String()
	db := storetest.Open(t)
	nbps, err := ipxe.Load(filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	subnet := netip.MustParsePrefix("127.64.0.0/10")
	block := byte(ln.Addr().(*net.TCPAddr).Port) // tests of other packages lease too
	a.dhcp, err = dhcp.New(dhcp.Config{
		Interface: "sim", Address: netip.MustParseAddr("127.0.0.1"), Mode: dhcp.Full, BaseURL: a.url, NoSockets: true,
		Subnet: subnet, First: netip.AddrFrom4([4]byte{127, 100, block &^ 15, 1}), Last: netip.AddrFrom4([4]byte{127, 100, block | 15, 250}),
		Unknown: 3000, HasFile: nbps.Has, Log: zerolog.Nop(),
	}, db, a, db)
	if err != nil {
		t.Fatal(err)
	}
	a.tftp = tftp.New(tftp.Config{Address: netip.MustParseAddrPort("127.0.0.1:0"), AnyPort: true, Files: nbps, Booter: a, Owner: a.dhcp.Owner, Recorder: db, Log: zerolog.Nop()})
	if err := errors.Join(a.dhcp.Open(), a.tftp.Open()); err != nil {
		t.Fatal(err)
	}
	boot, err := httpd.New(httpd.Config{Booter: a, BaseURL: a.url, Ramdisk: a.ramdisk, NBPs: nbps, Owner: a.dhcp.Owner, Recorder: db, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(pxe.PathPrefix, boot)
	mux.HandleFunc("GET /v1/lookup", a.lookup)
	mux.HandleFunc("POST /v1/heartbeat/{node}", a.heartbeat)
	mux.HandleFunc("GET /the-image", a.serveImage)
	server := &http.Server{Handler: mux}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(ln) })
	running.Go(func() { _ = a.dhcp.Run(ctx) })
	running.Go(func() { _ = a.tftp.Run(ctx) })
	t.Cleanup(func() { cancel(); server.Close(); running.Wait() })
	return a
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func (a *appliance) DHCP(ctx context.Context, packet []byte, port int) ([]byte, error) {
	return a.dhcp.Deliver(ctx, packet, port)
}
func (a *appliance) TFTP() netip.AddrPort             { return a.tftp.Addr() }
func (a *appliance) Ramdisk() (kernel, initrd string) { return a.sums[0], a.sums[1] }
func (a *appliance) ramdisk(n string) (*pxe.File, error) {
	b, ok := a.files[n]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return &pxe.File{ReadSeekCloser: seekable{bytes.NewReader(b)}, Size: int64(len(b))}, nil
}

type seekable struct{ *bytes.Reader }

func (seekable) Close() error { return nil }

// Boot implements pxe.Booter.
func (a *appliance) Boot(_ context.Context, m pxe.Machine) pxe.Boot {
	a.mu.Lock()
	defer a.mu.Unlock()
	return pxe.Boot{Action: a.action, Node: nodeOf(m.MAC.String()), Run: 1, Token: token, Args: []string{"ipa-agent-token=" + token}}
}

// File implements pxe.Booter.
func (a *appliance) File(context.Context, string, string) (*pxe.File, error) {
	return nil, pxe.ErrNoFile
}

// nodeOf makes a node of a MAC.
func nodeOf(mac string) string { return nodeUUID[:24] + strings.ReplaceAll(mac, ":", "") }

func (a *appliance) set(action pxe.Action) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.action = action
}

func (a *appliance) lookup(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.sources = append(a.sources, r.RemoteAddr)
	a.mu.Unlock()
	w.Header().Set("X-OpenStack-Ironic-API-Maximum-Version", "1.99")
	mac, _, _ := strings.Cut(r.URL.Query().Get("addresses"), ",")
	_ = json.NewEncoder(w).Encode(wire.LookupResponse{
		Node:   wire.LookupNode{UUID: nodeOf(mac)},
		Config: wire.LookupConfig{HeartbeatTimeout: 300, AgentToken: token},
	})
}

func (a *appliance) heartbeat(w http.ResponseWriter, r *http.Request) {
	var b wire.Heartbeat
	if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	a.sources = append(a.sources, r.RemoteAddr)
	a.mu.Unlock()
	a.beats <- beat{b, r.PathValue("node")}
	w.WriteHeader(http.StatusAccepted)
}

func (a *appliance) serveImage(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.sources = append(a.sources, r.RemoteAddr)
	a.mu.Unlock()
	w.Header().Set("ETag", `"one"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.image))
}

// ramdiskOf waits for the agent's first call.
func (a *appliance) await() beat {
	a.t.Helper()
	select {
	case b := <-a.beats:
		return b
	case <-time.After(patience):
		a.t.Fatal("no agent calls")
		panic("unreachable")
	}
}

// command sends a command to an agent and waits for its end, or for that of
// the connection.
func (a *appliance) command(b beat, name string, params map[string]any) (c wire.Command, err error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(b.AgentVerifyCA))
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer t.CloseIdleConnections()
	body, _ := json.Marshal(wire.CommandRequest{Name: name, Params: params})
	resp, err := (&http.Client{Transport: t, Timeout: patience}).Post(b.CallbackURL+"/v1/commands/?wait=true&agent_token="+token, "application/json", bytes.NewReader(body))
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return c, err
	}
	if resp.StatusCode != http.StatusOK {
		return c, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return c, json.Unmarshal(text, &c)
}

// write has the agent write the image.
func (a *appliance) write(b beat) (wire.Command, error) {
	return a.command(b, "deploy.execute_deploy_step", map[string]any{
		"step": map[string]any{"interface": "deploy", "step": "write_image", "args": map[string]any{"image_info": map[string]any{
			"id": "tiny", "urls": []string{a.url + "/the-image"}, "os_hash_algo": "sha256", "os_hash_value": sum(a.image),
		}}},
		"node": map[string]any{}, "ports": []any{},
	})
}

// newRack opens a rack of tiny machines.
func newRack(t *testing.T, a *appliance, change func(*Options)) *Rack {
	t.Helper()
	r, err := New(options(t, a, change))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := r.Open(); err != nil {
		t.Fatal(err)
	}
	return r
}

func options(t *testing.T, a *appliance, change func(*Options)) Options {
	o := Options{Dir: t.TempDir(), Wire: a, Seed: 7, Machines: 1, Profiles: []string{"tiny"}, Pace: 0.01, Log: zerolog.Nop(), Version: "1"}
	if change != nil {
		change(&o)
	}
	return o
}

// driver opens the real driver on a machine's controller.
func driver(t *testing.T, m *Machine) bmc.Driver {
	t.Helper()
	e := m.Enrollment()
	open := redfish.Type().Open
	if e.Driver == "ipmi" {
		open = ipmi.Type().Open
	}
	d, err := open(bmc.Target{Node: e.Name, DriverInfo: e.DriverInfo})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// reach waits until a machine is at a stage.
func reach(t *testing.T, m *Machine, want Stage) Status {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		s := m.Status()
		if s.Stage == want && (want != StageOff || s.Power == "power off") {
			return s
		}
		if time.Now().After(end) {
			text, _ := json.MarshalIndent(journalOf(t, m), "", " ")
			t.Fatalf("%s is at %+v, not at %s; its journal: %s", m.Name(), s, want, text)
		}
	}
}

func journalOf(t *testing.T, m *Machine) []Event {
	t.Helper()
	es, err := m.Journal()
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range es {
		if e.Seq != es[0].Seq+uint64(i) || e.Time.IsZero() {
			t.Errorf("event %d has number %d, time %v", i, e.Seq, e.Time)
		}
	}
	return es
}

// shape is a journal in short: "power:on/bmc start:uefi boot:network …".
func shape(es []Event) string {
	var b strings.Builder
	for _, e := range es {
		fmt.Fprintf(&b, "%s:%s", e.Kind, e.What)
		if e.By != "" {
			fmt.Fprintf(&b, "/%s", e.By)
		}
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}
