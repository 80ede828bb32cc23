package sim_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/redfish"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
	"bessemer/store"
	"bessemer/store/storetest"
)

type object = map[string]any

const (
	benchSystem = "/redfish/v1/Systems/node-1"
	benchReset  = benchSystem + "/Actions/ComputerSystem.Reset"
)

// A bench is a machine with quirks, and the appliance's client of it.
type bench struct {
	t      *testing.T
	m      *sim.Memory
	ctl    *sim.Controller
	rf     *sim.Redfish
	url    string
	pool   *bmc.Pool
	client *bmc.Client
	types  bmc.Types
	conns  func() int
	tries  int // starts until the machine booted from the network

	mu       sync.Mutex
	requests []string // "GET /path"
}

func newBench(t *testing.T, quirks ...flaw.ID) *bench {
	return newBenchOf(t, 20*time.Millisecond, quirks...)
}

// newBenchOf is newBench with a machine whose power takes a while to change.
func newBenchOf(t *testing.T, delay time.Duration, quirks ...flaw.ID) *bench {
	b := &bench{t: t, types: bmc.Types{"redfish": redfish.Type()}}
	b.m = sim.NewMemory(sim.Spec{
		Name: "node-1", UUID: "16b7275a-4a72-508c-9b1f-0a1b2c3d4e01", Manufacturer: "Bessemer", Model: "Simulated", Serial: "SN-1",
		NICs:  []sim.NIC{{MAC: "52:54:00:be:55:01"}, {MAC: "52:54:00:be:55:02"}},
		Disks: []sim.Disk{{Name: "Disk0", Bus: sim.SATA, Size: 1 << 30}},
	}, delay)
	b.ctl = sim.NewController(b.m, flaw.NewSet(1, quirks...))
	b.ctl.Pace = 0.1
	if slices.Contains(quirks, "B-21") {
		b.ctl.Pace = 0.3 // its states are to be seen
	}
	b.m.Use(b.ctl)
	b.rf = sim.NewRedfish(sim.RedfishOptions{
		User: "admin", Password: "right-4711", Controllers: func(sim.Machine) *sim.Controller { return b.ctl },
	}, b.m)
	lis := listen(t)
	counted := &counter{Listener: lis}
	b.conns = counted.count
	s := sim.Serve(counted, b, nil)
	t.Cleanup(func() { _ = s.Close() })
	b.url = "http://" + lis.Addr().String()
	call := 4 * time.Second
	if slices.Contains(quirks, "R-15") {
		call = time.Second // of the nine seconds that an action takes
	}
	b.pool = bmc.NewPool(b.types, &storetest.Recorder{}, bmc.PoolOptions{
		CallTimeout: call, PowerWait: 2 * time.Second, SoftWait: 2 * time.Second, Settle: 500 * time.Millisecond,
		PollMin: 10 * time.Millisecond, PollMax: 50 * time.Millisecond,
	})
	t.Cleanup(func() { _ = b.pool.Close() })
	b.client = b.open("right-4711", benchSystem)
	return b
}

// A counter counts the open connections of a listener.
type counter struct {
	net.Listener
	n atomic.Int64
}

func (c *counter) count() int { return int(c.n.Load()) }

func (c *counter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.n.Add(1)
	return &counted{Conn: conn, counter: c}, nil
}

type counted struct {
	net.Conn
	counter *counter
	once    sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.counter.n.Add(-1) })
	return c.Conn.Close()
}

// open returns the client of a node with the given password and system.
func (b *bench) open(password, system string) *bmc.Client {
	b.t.Helper()
	c, err := b.pool.Client(&store.Node{UUID: "n1", Driver: "redfish", DriverInfo: object{
		"redfish_address": b.url, "redfish_username": "admin", "redfish_password": password, "redfish_system_id": system,
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// driver returns a driver as after a restart of the appliance.
func (b *bench) driver() bmc.Driver {
	b.t.Helper()
	d, err := redfish.Type().Open(bmc.Target{DriverInfo: object{
		"redfish_address": b.url, "redfish_username": "admin", "redfish_password": "right-4711", "redfish_system_id": benchSystem,
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = d.Close() })
	return d
}

// ServeHTTP notes requests on their way to the service.
func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.requests = append(b.requests, r.Method+" "+r.URL.Path)
	b.mu.Unlock()
	b.rf.ServeHTTP(w, r)
}

// count is how many requests there were that begin like this.
func (b *bench) count(prefix string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// raw makes a request as another client does; header are pairs.
func (b *bench) raw(method, path, body string, header ...string) (*http.Response, object) {
	b.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, d, err := b.rawBy(client, method, path, body, header...)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp, d
}

func (b *bench) rawBy(client *http.Client, method, path, body string, header ...string) (*http.Response, object, error) {
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.SetBasicAuth("admin", "right-4711")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	var raw bytes.Buffer
	if _, err := raw.ReadFrom(resp.Body); err != nil {
		b.t.Fatal(err)
	}
	var d object
	_ = json.Unmarshal(raw.Bytes(), &d) // not all are JSON
	return resp, d, nil
}

// answers checks the status of a raw request.
func (b *bench) answers(want int, method, path, body string, header ...string) {
	b.t.Helper()
	if resp, d := b.raw(method, path, body, header...); resp.StatusCode != want {
		b.t.Errorf("%s %s %s: got %s %v, want %d", method, path, body, resp.Status, d, want)
	}
}

// boot is the Boot object that any client sees.
func (b *bench) boot() object {
	b.t.Helper()
	_, d := b.raw("GET", benchSystem, "")
	boot, _ := d["Boot"].(object)
	return boot
}

// ok ends the test on an error.
func (b *bench) ok(what string, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// started is what the machine booted from last.
func (b *bench) started() bmc.Boot {
	starts := b.m.Starts()
	if len(starts) == 0 {
		return bmc.Boot{}
	}
	return starts[len(starts)-1]
}
