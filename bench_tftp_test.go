//go:build linux

package main_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"
)

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
		defer endPeer(p)
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
		b.add(row{Subject: "TFTP, " + people(clients), Unit: "MB/s", Ours: mine, Peer: theirs, PeerName: name, How: "1 MiB file, blksize 1468, no windowsize"})
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
