//go:build linux

package main_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bessemer/pxe"
)

// A load is what clients of a server got in a while.
type load struct {
	bytes, requests int64
	took            time.Duration
}

func (l load) megabytes() float64 { return mega(l.bytes) / l.took.Seconds() }
func (l load) rate() float64      { return float64(l.requests) / l.took.Seconds() }

// A fetcher gets a file once and returns its size.
type fetcher func() (int64, error)

// runLoad has clients fetch again and again; each finishes what it has begun
// when the time is over.
func runLoad(t *testing.T, clients int, connect func(client int) (fetcher, io.Closer, error)) load {
	t.Helper()
	var mu sync.Mutex
	var sum load
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range clients {
		wg.Go(func() {
			bytes, n, err := runClient(i, begun.Add(*benchPeriod), connect)
			mu.Lock()
			defer mu.Unlock()
			sum.bytes, sum.requests = sum.bytes+bytes, sum.requests+n
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	sum.took = time.Since(begun)
	return sum
}

func runClient(client int, until time.Time, connect func(client int) (fetcher, io.Closer, error)) (bytes, n int64, err error) {
	get, closer, err := connect(client)
	if err != nil {
		return 0, 0, err
	}
	defer closer.Close()
	for time.Now().Before(until) {
		size, err := get()
		if err != nil {
			return bytes, n, err
		}
		bytes, n = bytes+size, n+1
	}
	return bytes, n, nil
}

// benchTFTP measures reading a boot program with blocks that fit an Ethernet
// frame, as firmware does.
func benchTFTP(t *testing.T, b *bench, r *benchRack) {
	dir := filepath.Join(r.peers.Dir, "tftp")
	writeSized(t, filepath.Join(dir, tftpName), tftpFile)
	name := "tftpd-hpa"
	tftpd, missing := program("in.tftpd", "tftpd-hpa")
	if missing != "" {
		name = missing
	} else {
		p := r.startPeer(t, ":69 ", tftpd, "--foreground", "--listen", "--address", hostPort(peerNet, 69), "--user", "root", "--secure", dir)
		defer p.Kill()
	}
	for _, clients := range []int{1, maxClients} {
		get := func(net netip.Prefix) func() float64 {
			return func() float64 {
				return runLoad(t, clients, func(c int) (fetcher, io.Closer, error) { return r.tftpClient(t, net, c) }).megabytes()
			}
		}
		ours, peer := get(ourNet), get(peerNet)
		if missing != "" {
			peer = nil
		}
		mine, theirs := pair(ours, peer)
		b.add(row{Subject: fmt.Sprintf("TFTP, %d clients", clients), Unit: "MB/s", Ours: mine, Peer: theirs, PeerName: name, How: "1 MiB file, blksize 1468, no windowsize"})
	}
}

// tftpClient is a machine that loads a boot program; each has an address of
// its own.
func (r *benchRack) tftpClient(t *testing.T, server netip.Prefix, client int) (fetcher, io.Closer, error) {
	from := netip.AddrPortFrom(clientAddr(server, client), 0)
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(server.Addr(), 69))
	return func() (int64, error) {
		conn, err := r.clients.ListenPacket("udp4", from.String())
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		return tftpRead(conn, to, tftpName)
	}, io.NopCloser(nil), nil
}

// tftpRead reads a file (RFC 1350, blksize by RFC 2348) and returns its size.
func tftpRead(conn net.PacketConn, server net.Addr, name string) (size int64, err error) {
	const block = 1468
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return 0, err
	}
	request := fmt.Appendf([]byte{0, 1}, "%s\x00octet\x00blksize\x00%d\x00", name, block)
	if _, err := conn.WriteTo(request, server); err != nil {
		return 0, err
	}
	buf := make([]byte, block+4)
	for expect := uint16(0); ; {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return size, fmt.Errorf("tftp: block %d: %w", expect, err)
		}
		got := uint16(buf[2])<<8 | uint16(buf[3])
		switch {
		case n >= 4 && buf[1] == 5:
			return size, fmt.Errorf("tftp: the server says %q", buf[4:n])
		case n > 4 && buf[1] == 6 && expect == 0: // the option is taken
			got = 0
		case n < 4 || buf[1] != 3 || got != expect:
			continue // sent again
		default:
			size += int64(n - 4)
		}
		if _, err := conn.WriteTo([]byte{0, 4, byte(got >> 8), byte(got)}, from); err != nil {
			return size, err
		}
		if expect++; got > 0 && n < block+4 {
			return size, nil
		}
	}
}

// benchHTTP measures what iPXE loads.
func benchHTTP(t *testing.T, b *bench, r *benchRack) {
	dir := filepath.Join(r.peers.Dir, "www")
	writeSized(t, filepath.Join(dir, pxe.PathKernel), smallFile)
	writeSized(t, filepath.Join(dir, pxe.PathInitrd), largeFile)
	name := "nginx"
	nginx, missing := program("nginx", "nginx-light")
	if missing != "" {
		name = missing
	} else {
		p := r.startPeer(t, ":6386", nginx, "-e", "stderr", "-p", r.peers.Dir, "-c", nginxConfig(t, r.peers.Dir, dir))
		defer p.Kill() // the only process
	}
	for _, m := range []struct {
		path    string
		clients int
		unit    string
		figure  func(load) float64
		how     string
	}{
		{pxe.PathInitrd, 1, "MB/s", load.megabytes, "256 MiB file"},
		{pxe.PathInitrd, maxClients, "MB/s", load.megabytes, "256 MiB file"},
		{pxe.PathKernel, maxClients, "requests/s", load.rate, "4 KiB file, connections kept"},
	} {
		get := func(net netip.Prefix) func() float64 {
			return func() float64 {
				return m.figure(runLoad(t, m.clients, func(int) (fetcher, io.Closer, error) { return r.httpClient(t.Context(), net, m.path) }))
			}
		}
		ours, peer := get(ourNet), get(peerNet)
		if missing != "" {
			peer = nil
		}
		mine, theirs := pair(ours, peer)
		b.add(row{Subject: fmt.Sprintf("HTTP, %d clients", m.clients), Unit: m.unit, Ours: mine, Peer: theirs, PeerName: name, How: m.how})
	}
}

func nginxConfig(t *testing.T, dir, root string) string {
	t.Helper()
	path := filepath.Join(dir, "nginx.conf")
	config := fmt.Sprintf(`daemon off;
worker_processes auto;
user root;
pid %[1]s/nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  open_file_cache max=100;
  keepalive_requests 10000000;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  server { listen %[2]s; root %[3]s; }
}
`, dir, hostPort(peerNet, 6386), root)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// httpClient reads a file over one connection as cheaply as can be: it is not
// the client that is to be measured.
func (r *benchRack) httpClient(ctx context.Context, server netip.Prefix, path string) (fetcher, io.Closer, error) {
	conn, err := r.clients.DialContext(ctx, "tcp", hostPort(server, 6386))
	if err != nil {
		return nil, nil, err
	}
	in, buf := bufio.NewReader(conn), make([]byte, 1<<20)
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: " + hostPort(server, 6386) + "\r\n\r\n")
	return func() (int64, error) {
		if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			return 0, err
		}
		if _, err := conn.Write(request); err != nil {
			return 0, err
		}
		size, err := readHead(in)
		if err != nil {
			return 0, err
		}
		for rest := size; rest > 0; {
			n, err := in.Read(buf[:min(rest, int64(len(buf)))])
			if err != nil {
				return 0, err
			}
			rest -= int64(n)
		}
		return size, nil
	}, conn, nil
}

// readHead reads the head of an answer and returns the size of its body.
func readHead(in *bufio.Reader) (size int64, err error) {
	size = -1
	for n := 0; ; n++ {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		line = strings.TrimSpace(line)
		switch key, value, _ := strings.Cut(line, ": "); {
		case n == 0 && !strings.Contains(line, " 200 "):
			return 0, fmt.Errorf("the server answered %q", line)
		case line == "" && size < 0:
			return 0, errors.New("the answer does not tell its size")
		case line == "":
			return size, nil
		case strings.EqualFold(key, "Content-Length"):
			if size, err = strconv.ParseInt(value, 10, 64); err != nil {
				return 0, err
			}
		}
	}
}
