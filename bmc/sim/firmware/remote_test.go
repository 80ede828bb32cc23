package firmware

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// serveWire serves a Wire on a unix socket until close is called.
func serveWire(t *testing.T, w Wire, socket string) (closeAll func()) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: Handler(w)}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	return func() { s.Close(); <-done }
}

// TestRemote boots over the socket, before and after the appliance was away.
func TestRemote(t *testing.T) {
	r := newRig(t, nil)
	socket := filepath.Join(t.TempDir(), "wire.sock")
	w := NewRemote(socket)
	boot := func() error {
		c := r.config(t, bios)
		c.Wire = w
		b, err := netboot(t, c)
		if err == nil && b.Action != Ramdisk {
			err = errors.New(string(b.Action))
		}
		return err
	}
	if err := boot(); err == nil {
		t.Error("booted from nowhere")
	}
	if reply, err := w.DHCP(t.Context(), make([]byte, 300), 67); reply != nil || err == nil {
		t.Errorf("a packet to nowhere: %d bytes, %v", len(reply), err)
	}
	for range 2 {
		stop := serveWire(t, r, socket)
		if err := boot(); err != nil {
			t.Error(err)
		}
		if w.TFTP() != r.TFTP() {
			t.Errorf("TFTP is at %s, want %s", w.TFTP(), r.TFTP())
		}
		stop()
	}
}

// A liar is an appliance that answers nonsense.
type liar struct{ reply []byte }

func (l liar) DHCP(context.Context, []byte, int) ([]byte, error) { return l.reply, nil }
func (liar) TFTP() netip.AddrPort                                { return netip.AddrPort{} }
func (liar) Ramdisk() (string, string)                           { return "", "" }

func TestRemoteLimits(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "wire.sock")
	defer serveWire(t, liar{make([]byte, 1<<20)}, socket)()
	w := NewRemote(socket)
	if reply, err := w.DHCP(t.Context(), make([]byte, 300), 67); reply != nil || err != nil {
		t.Errorf("took a reply of %d bytes, %v", len(reply), err)
	}
	if reply, _ := w.DHCP(t.Context(), make([]byte, maxFrame+1), 67); reply != nil {
		t.Error("carried a packet longer than a frame")
	}
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	for path, want := range map[string]int{"/dhcp?port=x": 400, "/dhcp?port=99999": 400, "/dhcp": 400, "/other": 404} {
		resp, err := c.Post("http://wire"+path, "", bytes.NewReader(make([]byte, 10)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, resp.StatusCode, want)
		}
	}
}

func TestRenew(t *testing.T) {
	r := newRig(t, nil)
	b, err := netboot(t, r.config(t, bios))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Renew(t.Context(), r.config(t, bios), b.Lease)
	if err != nil || d != b.Lease.For {
		t.Errorf("renewed for %s, %v; want %s", d, err, b.Lease.For)
	}
	b.Lease.IP = netip.MustParseAddr("127.64.9.9")
	if _, err := Renew(t.Context(), r.config(t, bios), b.Lease); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("renewed another's address: %v", err)
	}
}

// TestOutage takes the appliance away while machines in a hurry boot: its wire,
// then its HTTP server.
func TestOutage(t *testing.T) {
	r := newRig(t, nil)
	asked := 0
	c := r.config(t, uefi)
	c.Wire, c.Pace, c.floor = away{r, func() bool { asked++; return asked%4 != 0 }}, 0.001, 0
	if b, err := netboot(t, c); err != nil || b.Action != Ramdisk || asked < 12 {
		t.Errorf("%q, %v after %d packets", b.Action, err, asked)
	}
	m := newMachine(c)
	tries := 0
	err := m.through(t.Context(), refused, func() error {
		if tries++; tries < 3 {
			return &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	m.floor, tries = time.Nanosecond, 0
	if err := m.through(t.Context(), refused, func() error { tries++; return syscall.ECONNREFUSED }); err == nil || tries > 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

// away is a Wire that is gone now and then.
type away struct {
	*rig
	gone func() bool
}

func (a away) DHCP(ctx context.Context, packet []byte, port int) ([]byte, error) {
	if a.gone() {
		return nil, errors.New("away")
	}
	return a.rig.DHCP(ctx, packet, port)
}
