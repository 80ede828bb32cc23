//go:build linux

package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"path/filepath"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
)

// An override for one boot makes the firmware ask the network, though its disk
// is bootable; after a reset the disk boots.
func TestBootOverride(t *testing.T) {
	if testing.Short() {
		t.Skip("boots machines")
	}
	l, images := New(t), TinyImage(t)
	asked := l.listenDHCP(t)
	for _, tt := range []struct {
		mode string
		arch uint16 // option 93
	}{
		{sim.BIOS, 0},
		{sim.UEFI, 7},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			c := machineConfig(tt.mode)
			m := l.Machine(c)
			drive := ConfigDrive(t, map[string]string{"meta_data.json": `{"hostname": "once"}`})
			Install(t, m.Spec().Disks[0].Path, filepath.Join(images, "tiny.raw"), drive)
			if err := m.SetBoot(bmc.Boot{Device: bmc.PXE}); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if err := m.Power(t.Context(), bmc.On); err != nil {
				t.Fatal(err)
			}
			got := await(t, asked, c.NICs[0].MAC)
			t.Logf("%.1f s to DHCPDISCOVER, architecture %d", time.Since(start).Seconds(), got.arch)
			if got.arch != tt.arch {
				t.Errorf("architecture: got %d, want %d", got.arch, tt.arch)
			}
			if err := m.Power(t.Context(), bmc.Reset); err != nil {
				t.Fatal(err)
			}
			WaitConsole(t, m, 0, Marker, 3*time.Minute)
			if starts := m.Starts(); len(starts) != 2 || starts[0].Device != bmc.PXE || starts[1].Device != "" {
				t.Errorf("got starts %v, want one from the network and one without override", starts)
			}
			if err := m.Power(t.Context(), bmc.ForceOff); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A question is a client's DHCP message, as far as tests look at it.
type question struct {
	mac  string
	arch uint16
}

// listenDHCP passes on what DHCP clients on the provisioning network ask.
func (l *Lab) listenDHCP(t *testing.T) <-chan question {
	t.Helper()
	var conn net.PacketConn
	err := l.enter(func() (err error) {
		var lc net.ListenConfig
		conn, err = lc.ListenPacket(context.Background(), "udp4", "0.0.0.0:67")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	asked, ended := make(chan question, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 2048)
		for {
			n, _, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if q, ok := parseQuestion(buf[:n]); ok {
				asked <- q
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	return asked
}

// parseQuestion reads a BOOTP request with DHCP options (RFC 2131, section 2).
func parseQuestion(b []byte) (question, bool) {
	if len(b) < 240 || b[0] != 1 || !bytes.Equal(b[236:240], []byte{99, 130, 83, 99}) {
		return question{}, false
	}
	q := question{mac: net.HardwareAddr(b[28:34]).String()}
	for o := b[240:]; len(o) > 2 && o[0] != 255 && len(o) >= 2+int(o[1]); o = o[2+int(o[1]):] {
		if o[0] == 93 && o[1] == 2 {
			q.arch = binary.BigEndian.Uint16(o[2:])
		}
	}
	return q, true
}

func await(t *testing.T, asked <-chan question, mac string) question {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case q := <-asked:
			if q.mac == mac {
				return q
			}
		case <-timeout:
			t.Fatalf("no DHCP message from %s", mac)
		}
	}
}
