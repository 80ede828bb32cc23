package firmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"bessemer/bmc/sim/flaw"
)

// A machine is one that boots: from power on until network boot has ended.
type machine struct {
	Config
	rand   *rand.Rand
	nic    answer    // of the card that boots, as last configured
	shut   time.Time // the switch forwards nothing before
	bound  bool      // the switch has put the port into a bundle and out again (D-08)
	drives bool      // iPXE drives the card, not the firmware below it
	files  []File
	args   []string
	again  int // how often a boot program has loaded a boot program
}

func newMachine(c Config) *machine {
	return &machine{Config: c, rand: rand.New(rand.NewPCG(c.Seed, 0x6e6574626f6f74))}
}

func (m *machine) on(id flaw.ID) bool { return m.Flaws.On(id) }

func (m *machine) uefi() bool { return m.Mode == uefi }

// paced is how long a wait of a real machine is here.
func (m *machine) paced(d time.Duration) time.Duration { return time.Duration(float64(d) * m.Pace) }

// patience is how long the machine waits for an answer: as paced, but never so
// short that a busy appliance looks like a dead one.
func (m *machine) patience(d, least time.Duration) time.Duration {
	if m.floor > 0 {
		least = m.floor
	}
	return max(m.paced(d), least)
}

// wait lets the machine stand still for d of a real machine's time.
func (m *machine) wait(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := time.NewTimer(m.paced(d))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// say prints a line on the console; nothing that a script holds can steer the
// terminal.
func (m *machine) say(format string, args ...any) {
	if m.Console == nil {
		return
	}
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return '?'
		}
		return r
	}, fmt.Sprintf(format, args...))
	_, _ = io.WriteString(m.Console, line+"\n") // a screen that is off
}

// linkUp is the cable's link coming up, some time ago. A switch with spanning
// tree forwards nothing for 30 to 50 seconds then (D-07); one that waits for
// LACP neither, while only the ROM is there, which does not speak it (D-08).
func (m *machine) linkUp(ago time.Duration, lacp bool) {
	if m.on("D-07") || m.on("D-08") && !lacp {
		d := 30*time.Second + time.Duration(m.rand.Int64N(int64(20*time.Second)))
		m.shut = time.Now().Add(m.paced(d - ago))
	}
}

// How long before they ask the link has come up: of a ROM, early in the
// firmware's own start; of an iPXE in a ROM, with the ROM.
const (
	postLink = 25 * time.Second
	romLink  = 45 * time.Second
)

// bundle is a switch that heard iPXE answer LACP and then no more: it takes
// the port out of the bundle for 90 seconds (D-08).
func (m *machine) bundle() {
	if m.on("D-08") && m.drives && !m.bound {
		m.bound = true
		m.shut = time.Now().Add(m.paced(90 * time.Second))
	}
}

// blocked reports whether the switch forwards nothing now.
func (m *machine) blocked() bool { return time.Now().Before(m.shut) }

var errTimeout = errors.New("connection timed out")

// connectable waits until a connection can be opened, as long as a TCP stack
// repeats its SYN.
func (m *machine) connectable(ctx context.Context) error {
	const tries = 15 * time.Second
	left := time.Until(m.shut)
	if left <= 0 {
		return ctx.Err()
	}
	real := time.Duration(float64(left) / m.Pace)
	if err := m.wait(ctx, min(real, tries)); err != nil {
		return err
	}
	if real > tries {
		return errTimeout
	}
	return nil
}

// lost counts a packet and reports whether the wire loses it.
func (m *machine) lost() bool {
	_, hit := m.Flaws.Hit(flaw.PacketLoss)
	return hit
}

// delay holds a packet up when the wire is slow.
func (m *machine) delay(ctx context.Context) error {
	f, hit := m.Flaws.Hit(flaw.PacketDelay)
	if !hit {
		return nil
	}
	if f.Delay == 0 {
		f.Delay = time.Second
	}
	return m.wait(ctx, f.Delay)
}
