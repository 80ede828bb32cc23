package sim

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bessemer/bmc"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// QEMU's whole command line, per firmware.
func TestQEMUArgs(t *testing.T) {
	for _, mode := range []string{BIOS, UEFI} {
		t.Run(mode, func(t *testing.T) {
			c := QEMUConfig{Dir: "/rack/n1", CDROM: "/a,b.iso", Code: "/CODE.fd", Vars: "/VARS.fd", Spec: testSpec()}
			c.NICs[0].Tap, c.NICs[1].NoROM, c.Manufacturer = "tap1", true, "Bessemer, Inc"
			c.Disks = append(c.Disks, Disk{Bus: VirtioSCSI, Serial: "C", Size: 1}, Disk{Serial: "D", Size: 1})
			c.Modes = []string{mode}
			args := c.withDefaults().args(bmc.Boot{Device: bmc.PXE, Mode: mode})
			got := strings.Join(args, "\n") + "\n"
			golden := filepath.Join("testdata", "qemu-"+mode+".args")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("command line (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBootOrder(t *testing.T) {
	for _, tt := range []struct {
		first bmc.BootDevice
		want  []bmc.BootDevice
	}{
		{"", []bmc.BootDevice{bmc.Disk, bmc.CDROM, bmc.PXE}},
		{bmc.Disk, []bmc.BootDevice{bmc.Disk, bmc.CDROM, bmc.PXE}},
		{bmc.PXE, []bmc.BootDevice{bmc.PXE, bmc.Disk, bmc.CDROM}},
		{bmc.CDROM, []bmc.BootDevice{bmc.CDROM, bmc.Disk, bmc.PXE}},
	} {
		if got := bootOrder(tt.first); !slices.Equal(got, tt.want) {
			t.Errorf("%q first: got %v, want %v", tt.first, got, tt.want)
		}
	}
}

func TestQEMUConfigFaults(t *testing.T) {
	_, err := NewQEMU(QEMUConfig{Spec: Spec{
		Name: "x", UUID: "no", Modes: []string{"coreboot"},
		NICs: []NIC{{MAC: "zz"}}, Disks: []Disk{{Serial: strings.Repeat("s", 21)}},
	}})
	for _, want := range []string{"no directory", "uuid", "network card", "serial", "coreboot"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want also a word on %q", err, want)
		}
	}
}

// A QEMU that refuses its command line is reported with what it said.
func TestQEMUThatDoesNotStart(t *testing.T) {
	c := QEMUConfig{
		Dir: t.TempDir(), Command: []string{"/bin/cat", "--no-such-flag"},
		Spec: Spec{Name: "x", UUID: "16b7275a-4a72-508c-9b1f-0a1b2c3d4e01", Modes: []string{BIOS}},
	}
	m, err := NewQEMU(c)
	if err != nil {
		t.Fatal(err)
	}
	err = m.Power(t.Context(), bmc.On)
	if err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("got %v, want what the program said", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.Power(t.Context(), bmc.On); err == nil {
		t.Error("a closed machine was started")
	}
}

// The monitor's events come through in order, and answers find their calls.
func TestQMP(t *testing.T) {
	ours, theirs := net.Pipe()
	q := newQMP(ours)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer theirs.Close()
		fmt.Fprintln(theirs, `{"QMP": {"version": {}, "capabilities": ["oob"]}}`)
		lines := bufio.NewScanner(theirs)
		for lines.Scan() {
			var c struct {
				Execute string
				ID      int
			}
			if json.Unmarshal(lines.Bytes(), &c) != nil {
				return
			}
			fmt.Fprintln(theirs, `{"event": "RTC_CHANGE", "data": {"offset": 1}}`)
			switch c.Execute {
			case "refuse":
				fmt.Fprintf(theirs, `{"id": %d, "error": {"class": "GenericError", "desc": "no way"}}`+"\n", c.ID)
			case "end":
				fmt.Fprintln(theirs, `{"event": "SHUTDOWN", "data": {"guest": true, "reason": "guest-reset"}}`)
				return
			default:
				fmt.Fprintf(theirs, `{"id": %d, "return": {}}`+"\n", c.ID)
			}
		}
	}()
	if err := q.call(t.Context(), "qmp_capabilities"); err != nil {
		t.Error(err)
	}
	if err := q.call(t.Context(), "refuse"); err == nil || !strings.Contains(err.Error(), "no way") {
		t.Errorf("got %v, want the refusal", err)
	}
	if err := q.call(t.Context(), "end"); err == nil {
		t.Error("a call that was not answered succeeded")
	}
	var last qmpEvent
	n := 0
	for last = range q.events {
		n++
	}
	if n != 4 || last != (qmpEvent{"SHUTDOWN", "guest-reset"}) {
		t.Errorf("got %d events, the last %v", n, last)
	}
	if err := q.call(t.Context(), "late"); err == nil {
		t.Error("a call on an ended connection succeeded")
	}
	<-ended
	_ = ours.Close()
}
