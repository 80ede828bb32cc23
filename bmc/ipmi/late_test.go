package ipmi

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
	simipmi "bessemer/bmc/sim/ipmi"
)

// TestLateStart starts a machine when its controller has forgotten the boot
// device, or would have if it had not been told to keep it (I-03).
func TestLateStart(t *testing.T) {
	for _, tt := range []struct {
		name        string
		keep, quirk bool
		late        time.Duration
	}{
		{"kept", true, false, time.Hour},
		{"not kept", false, false, 0},
		{"kept by one that refuses that", true, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := sim.NewMemory(sim.Spec{Name: "node-1"}, 0)
			c := sim.NewController(m, flaw.NewSet(1))
			if tt.quirk {
				c.Flaws.Turn(true, "I-03")
			}
			var skew atomic.Int64
			s := simipmi.New(c, simipmi.Options{User: testUser, Password: testPassword, Now: func() time.Time {
				return time.Now().Add(time.Duration(skew.Load()))
			}})
			conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- s.Serve(conn) }()
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				<-done
			})
			d := open(t, conn.LocalAddr().(*net.UDPAddr).Port)
			d.s.keepFlags, d.s.timing.late = tt.keep, tt.late
			want := bmc.Boot{Device: bmc.PXE, Mode: "uefi"}
			for _, pass := range []time.Duration{0, time.Hour} {
				if err := d.SetBoot(t.Context(), want); err != nil {
					t.Fatal(err)
				}
				_ = d.Close() // the session would not last so long
				skew.Add(int64(pass))
				if err := d.Power(t.Context(), bmc.Reset); err != nil {
					t.Fatal(err)
				}
			}
			if got := m.Starts(); len(got) != 2 || got[0] != want || got[1] != want {
				t.Errorf("the machine booted from %v, want twice %s", got, want)
			}
			// What was for one boot is used up.
			if err := d.Power(t.Context(), bmc.Reset); err != nil {
				t.Fatal(err)
			}
			if got := m.Starts(); len(got) != 3 || got[2].Device != "" {
				t.Errorf("the next start was from %v, want none", got)
			}
		})
	}
}
