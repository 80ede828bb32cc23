package hardware

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/rs/zerolog"

	"bessemer/agent"
	"bessemer/agent/fetch"
	"bessemer/agent/wire"
)

const token = "0123456789abcdef0123456789abcdef"

// appliance is as much of a server as an agent needs. It takes no address that
// is not spelled as in the store.
type appliance struct {
	*httptest.Server
	port  string // MAC of the only port it knows
	beats chan wire.Heartbeat
	seen  map[string]bool // certificates of agents

	mu    sync.Mutex
	files map[string][]byte
	gets  map[string]int
}

func newAppliance(t *testing.T, port string) *appliance {
	a := &appliance{port: port, beats: make(chan wire.Heartbeat, 64), files: map[string][]byte{}, gets: map[string]int{}, seen: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.LookupPath, a.lookup)
	mux.HandleFunc("POST "+wire.HeartbeatPath+"{node}", func(w http.ResponseWriter, r *http.Request) {
		var h wire.Heartbeat
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		select {
		case a.beats <- h:
		default:
		}
	})
	mux.HandleFunc("GET /files/{name}", a.file)
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

func (a *appliance) lookup(w http.ResponseWriter, r *http.Request) {
	macs := strings.Split(r.URL.Query().Get("addresses"), ",")
	for i, mac := range macs {
		var b [6]byte
		if n, err := fmt.Sscanf(mac, "%02x:%02x:%02x:%02x:%02x:%02x", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]); n != 6 || err != nil ||
			mac != strings.ToLower(mac) || len(mac) != 17 || b == [6]byte{} || b[0]&1 != 0 || slices.Contains(macs[:i], mac) {
			http.Error(w, fmt.Sprintf(`{"error_message": "%q is no address of a card"}`, mac), http.StatusBadRequest)
			return
		}
	}
	if !slices.Contains(macs, a.port) {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(wire.LookupResponse{
		Node:   wire.LookupNode{UUID: "5f5d7a2e-0000-4000-8000-000000000001"},
		Config: wire.LookupConfig{HeartbeatTimeout: 300, AgentToken: token, AgentTokenRequired: true},
	})
}

func (a *appliance) file(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	b := a.files[r.PathValue("name")]
	a.gets[r.PathValue("name")]++
	a.mu.Unlock()
	w.Header().Set("ETag", `"`+hexSum(b)+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
}

func hexSum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// ramdisk is a machine with the agent on it.
type ramdisk struct {
	t       *testing.T
	server  *appliance
	machine *Machine
	first   wire.Heartbeat
	client  *http.Client
	node    map[string]any
	ended   chan error
	stop    func() // ends the agent, if it has not ended
}

// startRamdisk starts a machine with the real agent.
func startRamdisk(t *testing.T, a *appliance, c Config, node map[string]any) *ramdisk {
	t.Helper()
	c.IP = netip.MustParseAddr("127.0.0.1")
	c.OnPowerOff = func() {}
	r := &ramdisk{t: t, server: a, machine: New(c), node: node, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		r.ended <- agent.Run(ctx, agent.Config{
			APIURL: a.URL, Listen: "127.0.0.1:0", Version: "test", DiskWait: 2 * time.Second, Stall: 300 * time.Millisecond,
			Now: r.machine.Now, Logger: zerolog.Nop(),
			Policy: fetch.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Via: r.machine.Via},
		}, r.machine)
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-r.ended; err != nil {
			t.Errorf("agent: %v", err)
		}
	})
	t.Cleanup(r.stop)
	for r.first.CallbackURL == "" || a.seen[r.first.AgentVerifyCA] { // the last beat of an agent before may come late
		select {
		case r.first = <-a.beats:
		case err := <-r.ended:
			r.ended <- nil
			t.Fatalf("agent ended: %v", err)
		case <-time.After(20 * time.Second):
			t.Fatal("the agent does not come")
		}
	}
	a.seen[r.first.AgentVerifyCA] = true
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(r.first.AgentVerifyCA))
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

// command runs a command to its end.
func (r *ramdisk) command(name string, params map[string]any) wire.Command {
	r.t.Helper()
	body, err := json.Marshal(wire.CommandRequest{Name: name, Params: params})
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.client.Post(r.first.CallbackURL+"/v1/commands/?wait=true&agent_token="+token, "application/json", bytes.NewReader(body))
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	defer resp.Body.Close()
	var c wire.Command
	if err := json.NewDecoder(resp.Body).Decode(&c); err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %s, %v", name, resp.Status, err)
	}
	return c
}

// step runs a deploy or clean step.
func (r *ramdisk) step(kind, name string, args map[string]any) wire.Command {
	r.t.Helper()
	return r.command(kind+".execute_"+kind+"_step", map[string]any{
		"node": r.node, "ports": []any{}, "step": map[string]any{"interface": "deploy", "step": name, "args": args},
	})
}

// write writes an image and, unless it is to be bare, the config drive.
func (r *ramdisk) write(image []byte, bare bool) wire.Command {
	r.t.Helper()
	r.server.mu.Lock()
	r.server.files["image"] = image
	r.server.mu.Unlock()
	args := map[string]any{
		"image_info": map[string]any{"id": "tiny", "urls": []string{r.server.URL + "/files/image", r.server.URL + "/files/image"}, "os_hash_algo": "sha256", "os_hash_value": hexSum(image)},
	}
	if !bare {
		args["configdrive"] = configDrive()
	}
	return r.step("deploy", "write_image", args)
}

// configDrive is made as the appliance makes it: ISO 9660, packed.
var configDrive = sync.OnceValue(func() string {
	iso, err := makeISO(map[string]string{
		"openstack/latest/meta_data.json": `{"uuid": "11111111-2222-4333-8444-555555555555", "hostname": "machine-7", "public_keys": {"me": "ssh-ed25519 AAAA"}}`,
		"openstack/latest/user_data":      "#cloud-config\n",
	})
	if err != nil {
		panic(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(iso)
	_ = z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
})

func makeISO(files map[string]string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "iso-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	work, path := filepath.Join(dir, "tree"), filepath.Join(dir, "drive.iso")
	b, err := file.CreateFromPath(path, 4<<20)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	fs, err := iso9660.Create(b, 0, 0, 2048, work)
	if err != nil {
		return nil, err
	}
	err = errors.Join(fs.Mkdir("openstack"), fs.Mkdir("openstack/latest"))
	for name, text := range files {
		f, ferr := fs.OpenFile(name, os.O_CREATE|os.O_RDWR)
		if ferr != nil {
			return nil, ferr
		}
		_, werr := f.Write([]byte(text))
		err = errors.Join(err, werr, f.Close())
	}
	if err = errors.Join(err, fs.Finalize(iso9660.FinalizeOptions{VolumeIdentifier: "config-2", RockRidge: true, Joliet: true})); err != nil {
		return nil, err
	}
	iso, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return iso[:min(len(iso), int(binary.LittleEndian.Uint32(iso[16*2048+80:]))*2048)], nil
}
