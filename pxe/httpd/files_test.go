package httpd

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"bessemer/pxe"
	"bessemer/store/storetest"
)

// A spy tells what an HTTP server gives its connection to read from: with a
// file, the kernel copies.
type spy struct {
	net.Listener
	files chan bool
}

func (s spy) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return spyConn{c.(*net.TCPConn), s.files}, nil
}

type spyConn struct {
	*net.TCPConn
	files chan bool
}

func (c spyConn) ReadFrom(r io.Reader) (int64, error) {
	l, _ := r.(*io.LimitedReader)
	_, file := l.R.(*os.File)
	c.files <- file
	return c.TCPConn.ReadFrom(r)
}

func TestFilesAreSentByTheKernel(t *testing.T) {
	s := newServer(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	look := spy{ln, make(chan bool, 4)}
	srv := &http.Server{Handler: s}
	go srv.Serve(look)
	defer srv.Close()
	resp, err := http.Get("http://" + ln.Addr().String() + pxe.PathInitrd)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); n != 6000 || err != nil {
		t.Fatalf("got %d bytes, %v", n, err)
	}
	select {
	case file := <-look.files:
		if !file {
			t.Error("the connection gets a file wrapped in something, so it is copied through memory")
		}
	default:
		t.Error("the connection's ReadFrom is not used")
	}
}

func BenchmarkInitrd(b *testing.B) {
	dir := b.TempDir()
	path := filepath.Join(dir, "initrd")
	if err := os.WriteFile(path, make([]byte, 64<<20), 0o644); err != nil {
		b.Fatal(err)
	}
	h, err := New(Config{Booter: &booter{}, BaseURL: base, Ramdisk: Files(func() string { return path }, func() string { return path }), Recorder: &storetest.Recorder{}, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(h)
	defer srv.Close()
	b.SetBytes(64 << 20)
	buf := make([]byte, 1<<20)
	for b.Loop() {
		resp, err := http.Get(srv.URL + pxe.PathInitrd)
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = resp.Body.Read(buf)
		}
		resp.Body.Close()
	}
}
