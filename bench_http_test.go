//go:build linux

package main_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bessemer/pxe"
)

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
		defer endPeer(p)
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
		b.add(row{Subject: "HTTP, " + people(m.clients), Unit: m.unit, Ours: mine, Peer: theirs, PeerName: name, How: m.how})
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
