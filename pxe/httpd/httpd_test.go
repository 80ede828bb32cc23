package httpd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"bessemer/pxe"
	"bessemer/store"
	"bessemer/store/storetest"
)

type booter struct {
	nodes map[string]pxe.Boot // by MAC
	err   error
	panic atomic.Bool
	mu    sync.Mutex
	asked []pxe.Machine
}

const token = "canary-token-0123456789"

var image = bytes.Repeat([]byte("image"), 1000)

func (b *booter) Boot(_ context.Context, m pxe.Machine) pxe.Boot {
	if b.panic.Load() {
		panic("canary-panic")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, m)
	if boot, ok := b.nodes[m.MAC.String()]; ok {
		return boot
	}
	return pxe.Boot{Action: pxe.Retry}
}

func (b *booter) File(_ context.Context, tok, name string) (*pxe.File, error) {
	if b.err != nil {
		return nil, b.err
	}
	if tok != token || name != pxe.FileImage {
		return nil, fmt.Errorf("token: %w", pxe.ErrNoFile)
	}
	return &pxe.File{ReadSeekCloser: memory{bytes.NewReader(image)}, Size: int64(len(image)), Modified: time.Unix(1e9, 0), Node: "n", Run: 5, Trace: "t"}, nil
}

type server struct {
	http.Handler
	booter *booter
	rec    *storetest.Recorder
	log    *bytes.Buffer
	dir    string // of the ramdisk
}

// kernel replaces the ramdisk's kernel.
func (s *server) kernel(t testing.TB, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, Kernel), content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// newServer makes a handler with a node at 10.9.0.50 and one at 10.9.0.51.
func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{rec: &storetest.Recorder{}, log: &bytes.Buffer{}, booter: &booter{nodes: map[string]pxe.Boot{
		mac.String():        {Action: pxe.Ramdisk, Node: "n", Run: 5, Trace: "t", Token: token, Args: []string{"secret=of-n"}},
		"52:54:00:00:00:02": {Action: pxe.Local, Node: "m"},
	}}}
	dir := t.TempDir()
	s.dir = dir
	for name, content := range map[string]string{Kernel: "the kernel", Initrd: strings.Repeat("initrd", 1000)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	leases := map[string]string{"10.9.0.50": mac.String(), "10.9.0.51": "52:54:00:00:00:02"}
	h, err := New(Config{
		Booter: s.booter, BaseURL: base, NBPs: map[string][]byte{"ipxe.efi": []byte("program")}, Recorder: s.rec, Log: zerolog.New(zerolog.SyncWriter(s.log)),
		Ramdisk: Files(func() string { return filepath.Join(dir, Kernel) }, func() string { return filepath.Join(dir, Initrd) }),
		Owner: func(ip netip.Addr) (net.HardwareAddr, bool) {
			m, err := net.ParseMAC(leases[ip.String()])
			return m, err == nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Handler = h
	return s
}

func (s *server) do(method, path, from string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = from + ":1234"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestRoutes(t *testing.T) {
	size := strconv.Itoa(len(image))
	tests := []struct {
		method, path string
		header       []string
		code         int
		body         string // prefix
		length       string
	}{
		{"GET", "/boot/ipxe/52:54:00:00:00:01", nil, 200, "#!ipxe\necho Bessemer: loading the deploy ramdisk", ""},
		{"GET", "/boot/ipxe/52-54-00-00-00-01.ipxe", nil, 200, "#!ipxe\necho Bessemer: loading the deploy ramdisk", ""},
		{"GET", "/boot/ipxe/52:54:00:00:00:02", nil, 200, "#!ipxe\necho Bessemer: booting from disk", ""},
		{"GET", "/boot/ipxe/52:54:00:00:00:99", nil, 200, "#!ipxe\necho Bessemer: nothing to do for 52:54:00:00:00:99 yet", ""},
		{"GET", "/boot/ipxe/rubbish", nil, 200, "#!ipxe\n", ""},
		{"GET", "/boot/ipxe/", nil, 200, "#!ipxe\n", ""},
		{"GET", "/boot/ipxe/52:54:00:00:00:99?try=zzz", nil, 200, "#!ipxe\n", ""},
		{"HEAD", "/boot/ipxe/52:54:00:00:00:01", nil, 200, "", ""},
		{"GET", "/boot/ramdisk/kernel", nil, 200, "the kernel", "10"},
		{"HEAD", "/boot/ramdisk/initrd", nil, 200, "", "6000"},
		{"GET", "/boot/ramdisk/initrd", []string{"Range", "bytes=6-11"}, 206, "initrd", "6"},
		{"GET", "/boot/ramdisk/initrd", []string{"Range", "bytes=9000-"}, 416, "", ""},
		{"GET", "/boot/nbp/ipxe.efi", nil, 200, "program", "7"},
		{"HEAD", "/boot/nbp/ipxe.efi", nil, 200, "", "7"},
		{"GET", "/boot/nbp/none.efi", nil, 404, "no such file", ""},
		{"GET", "/boot/nbp/..%2f..%2fetc%2fpasswd", nil, 404, "no such file", ""},
		{"GET", "/boot/file/" + token + "/image", nil, 200, "imageimage", size},
		{"GET", "/boot/file/" + token + "/image", []string{"Range", "bytes=4990-"}, 206, "imageimage", "10"},
		{"GET", "/boot/file/" + token + "/image", []string{"Range", "bytes=0-1,3-4"}, 200, "imageimage", size},
		{"GET", "/boot/file/" + token + "/configdrive", nil, 404, "no such file", ""},
		{"GET", "/boot/file/" + token + "/other", nil, 404, "no such file", ""},
		{"GET", "/boot/file/wrong/image", nil, 404, "no such file", ""},
		{"POST", "/boot/ramdisk/kernel", nil, 405, "", ""},
		{"PUT", "/boot/file/" + token + "/image", nil, 405, "", ""},
		{"GET", "/boot/file/" + token, nil, 404, "", ""},
		{"GET", "/boot/", nil, 404, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			w := newServer(t).do(tt.method, tt.path, "10.9.0.200", tt.header...)
			if w.Code != tt.code || !strings.HasPrefix(w.Body.String(), tt.body) {
				t.Errorf("got %d %.80q, want %d %q", w.Code, w.Body, tt.code, tt.body)
			}
			if got := w.Header().Get("Content-Length"); tt.length != "" && got != tt.length {
				t.Errorf("Content-Length is %q, want %s", got, tt.length)
			}
			if tt.method == "HEAD" && w.Body.Len() > 0 {
				t.Errorf("HEAD has %d bytes of body", w.Body.Len())
			}
		})
	}
}

func TestETagSavesTheSecondDownload(t *testing.T) {
	s := newServer(t)
	for _, path := range []string{"/boot/ramdisk/kernel", "/boot/nbp/ipxe.efi"} {
		tag := s.do("GET", path, "10.9.0.200").Header().Get("ETag")
		if w := s.do("GET", path, "10.9.0.200", "If-None-Match", tag); tag == "" || w.Code != http.StatusNotModified {
			t.Errorf("%s: tag %q, then %d", path, tag, w.Code)
		}
	}
}

func TestScriptOfAnotherMachine(t *testing.T) {
	s := newServer(t)
	w := s.do("GET", "/boot/ipxe/"+mac.String(), "10.9.0.51")
	if w.Code != 200 || strings.Contains(w.Body.String(), "secret=of-n") || !strings.HasPrefix(w.Body.String(), "#!ipxe\n") {
		t.Errorf("got %d:\n%s", w.Code, w.Body)
	}
	if !strings.Contains(s.log.String(), "the boot script of another machine was asked for") {
		t.Error("not logged")
	}
	s.booter.nodes["52:54:00:00:00:02"] = pxe.Boot{Action: pxe.Ramdisk, Node: "n"} // the node's other card
	if w := s.do("GET", "/boot/ipxe/"+mac.String(), "10.9.0.51"); !strings.Contains(w.Body.String(), "secret=of-n") {
		t.Errorf("a node's other card was refused:\n%s", w.Body)
	}
}

func TestBooterHearsOfUnknownMachines(t *testing.T) {
	s := newServer(t)
	s.do("GET", "/boot/ipxe/52:54:00:00:00:99", "10.9.0.200")
	m := s.booter.asked[len(s.booter.asked)-1]
	if m.MAC.String() != "52:54:00:00:00:99" || m.What != "boot script" || m.IP.String() != "10.9.0.200" || m.Arch != pxe.NoArch {
		t.Errorf("heard %+v", m)
	}
}

// TestNothingLeaks looks for tokens and paths in all that leaves the server
// beside the answer itself.
func TestNothingLeaks(t *testing.T) {
	s := newServer(t)
	zerolog.SetGlobalLevel(zerolog.DebugLevel)
	s.do("GET", "/boot/file/"+token+"/image", "10.9.0.50")
	s.do("GET", "/boot/file/"+token+"/configdrive", "10.9.0.50")
	s.booter.err = errors.New("open /var/lib/canary-path: permission denied")
	w := s.do("GET", "/boot/file/"+token+"/image", "10.9.0.50")
	if w.Code != 500 || strings.Contains(w.Body.String(), "canary") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if strings.Contains(s.log.String(), token) {
		t.Errorf("token is in the log:\n%s", s.log)
	}
	for _, m := range s.rec.Messages() {
		if text := fmt.Sprintf("%+v %+v", m, m.Wire); strings.Contains(text, token) {
			t.Errorf("token is in a message: %s", text)
		}
	}
}

// Whoever guesses tokens does not fill the log.
func TestRefusalsDoNotFloodTheLog(t *testing.T) {
	s := newServer(t)
	for range 500 {
		s.do("GET", "/boot/file/guess/image", "10.9.0.200")
		s.do("GET", "/boot/ipxe/"+mac.String(), "10.9.0.51")
	}
	if n := strings.Count(s.log.String(), `"level":"warn"`); n == 0 || n > 100 {
		t.Errorf("%d warnings for 1000 refused requests", n)
	}
}

func TestArrows(t *testing.T) {
	s := newServer(t)
	s.do("GET", "/boot/ipxe/"+mac.String(), "10.9.0.50")
	s.do("GET", "/boot/ramdisk/kernel", "10.9.0.50")
	s.do("GET", "/boot/ramdisk/initrd", "10.9.0.50")
	s.do("GET", "/boot/nbp/ipxe.efi", "10.9.0.50")
	s.do("HEAD", "/boot/nbp/ipxe.efi", "10.9.0.50")
	s.do("GET", "/boot/file/"+token+"/image", "10.9.0.50")
	s.do("GET", "/boot/file/"+token+"/image", "10.9.0.50", "Range", "bytes=100-")
	s.do("GET", "/boot/ipxe/52:54:00:00:00:02", "10.9.0.51")
	s.do("GET", "/boot/ipxe/52:54:00:00:00:99", "10.9.0.200") // unknown: no arrow
	var got []string
	for _, m := range s.rec.Messages() {
		got = append(got, fmt.Sprintf("%s -> %s: %s (%s, node %s, %d bytes)", m.From, m.To, m.Label, m.Kind, m.Node, m.Wire.Out))
	}
	script := len(s.do("GET", "/boot/ipxe/"+mac.String(), "10.9.0.50").Body.String())
	local := len(s.do("GET", "/boot/ipxe/52:54:00:00:00:02", "10.9.0.51").Body.String())
	want := []string{
		"Node -> TFTP/HTTPd: Fetch boot script (request, node n, 0 bytes)",
		fmt.Sprintf("TFTP/HTTPd -> Node: Fetch boot script (reply, node n, %d bytes)", script),
		"Node -> TFTP/HTTPd: Fetch kernel (request, node n, 0 bytes)",
		"TFTP/HTTPd -> Node: Fetch kernel (reply, node n, 10 bytes)",
		"Node -> TFTP/HTTPd: Fetch ramdisk (request, node n, 0 bytes)",
		"TFTP/HTTPd -> Node: Fetch ramdisk (reply, node n, 6000 bytes)",
		"Node -> TFTP/HTTPd: Fetch boot program (request, node n, 0 bytes)",
		"TFTP/HTTPd -> Node: Fetch boot program (reply, node n, 7 bytes)",
		"Node -> HTTPStore: Download image (request, node n, 0 bytes)",
		"HTTPStore -> Node: Download image (reply, node n, 5000 bytes)",
		"Node -> TFTP/HTTPd: Fetch boot script (request, node m, 0 bytes)",
		fmt.Sprintf("TFTP/HTTPd -> Node: Boot from disk (reply, node m, %d bytes)", local),
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, m := range s.rec.Messages() {
		if m.Label == store.LabelDownloadImage && (m.Run != 5 || m.Wire.Path != "/boot/file/{token}/image") {
			t.Errorf("download recorded as %+v %+v", m, m.Wire)
		}
	}
}

func TestBusy(t *testing.T) {
	s := newServer(t)
	h := s.Handler
	block, entered := make(chan struct{}), make(chan struct{}, maxPerSource)
	s.booter.nodes = nil
	// Transfers whose client does not read.
	for range maxPerSource {
		go func() {
			r := httptest.NewRequest("GET", "/boot/nbp/ipxe.efi", nil)
			r.RemoteAddr = "10.9.0.200:1"
			h.ServeHTTP(&stuck{httptest.NewRecorder(), block, entered}, r)
			entered <- struct{}{}
		}()
	}
	for range maxPerSource {
		<-entered
	}
	if w := s.do("GET", "/boot/ipxe/x", "10.9.0.200"); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d, want 503 with Retry-After", w.Code)
	}
	if w := s.do("GET", "/boot/ipxe/x", "10.9.0.201"); w.Code != 200 {
		t.Errorf("another source got %d", w.Code)
	}
	close(block)
	for range maxPerSource {
		<-entered
	}
	if w := s.do("GET", "/boot/ipxe/x", "10.9.0.200"); w.Code != 200 {
		t.Errorf("got %d after the others ended", w.Code)
	}
}

type stuck struct {
	*httptest.ResponseRecorder
	block   chan struct{}
	entered chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	s.entered <- struct{}{}
	<-s.block
	return s.ResponseRecorder.Write(p)
}

func TestPanicEndsOneRequest(t *testing.T) {
	s := newServer(t)
	srv := httptest.NewServer(s)
	defer srv.Close()
	s.booter.panic.Store(true)
	if resp, err := http.Get(srv.URL + "/boot/ipxe/" + mac.String()); err == nil {
		t.Errorf("got %s, want a closed connection", resp.Status)
	}
	s.booter.panic.Store(false)
	resp, err := http.Get(srv.URL + "/boot/ipxe/" + mac.String())
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
}

func TestNoRamdisk(t *testing.T) {
	open := Files(func() string { return "" }, func() string { return "/nonexistent/initrd" })
	for _, name := range []string{Kernel, Initrd, "other"} {
		if _, err := open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h, err := New(Config{Booter: &booter{}, BaseURL: base, Ramdisk: open, Recorder: &storetest.Recorder{}, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", pxe.PathInitrd, nil))
	if w.Code != 404 || strings.Contains(w.Body.String(), "nonexistent") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestNewChecks(t *testing.T) {
	for _, cfg := range []Config{{BaseURL: "nowhere"}, {BaseURL: base, KernelArgs: []string{"a b"}}, {BaseURL: base, KernelArgs: []string{"${x}"}}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}
