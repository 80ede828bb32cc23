//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Listen opens a listening TCP socket in the lab, for servers that run in the
// test itself.
func (l *Lab) Listen(addr string) (net.Listener, error) {
	var lis net.Listener
	err := l.enter(func() (err error) {
		var lc net.ListenConfig
		lis, err = lc.Listen(context.Background(), "tcp", addr)
		return err
	})
	return lis, err
}

// ListenPacket opens a UDP socket in the lab.
func (l *Lab) ListenPacket(network, addr string) (net.PacketConn, error) {
	var conn net.PacketConn
	err := l.enter(func() (err error) {
		var lc net.ListenConfig
		conn, err = lc.ListenPacket(context.Background(), network, addr)
		return err
	})
	return conn, err
}

// DialContext connects to an address in the lab; it must be a literal one.
func (l *Lab) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	var conn net.Conn
	err := l.enter(func() (err error) {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}

// HTTPClient returns a client whose connections start in the lab. Streams may
// last as long as they like; ctx limits requests.
func (l *Lab) HTTPClient() *http.Client {
	tr := &http.Transport{DialContext: l.DialContext, ResponseHeaderTimeout: time.Minute}
	l.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// enter runs f on a thread that is in the lab's namespace. A socket stays in
// the namespace that it was made in.
func (l *Lab) enter(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- err
			return // ends the thread, as it is still locked
		}
		defer home.Close()
		err = setns("/run/netns/" + l.Name)
		if err == nil {
			err = f()
		}
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
			done <- errors.Join(err, fmt.Errorf("leave network namespace: %w", back))
			return // likewise: nobody else gets a thread in the wrong place
		}
		runtime.UnlockOSThread()
		done <- err
	}()
	return <-done
}

func setns(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return nil
}

// pinThread runs f on one thread from begin to end.
func pinThread(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
}
