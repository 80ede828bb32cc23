package ipmi_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
	simipmi "bessemer/bmc/sim/ipmi"
	"bessemer/store"
)

// TestFaults injects faults while the driver has a session.
func TestFaults(t *testing.T) {
	t.Parallel()
	bad := map[string]func(error) bool{
		"bmc-500":                 func(err error) bool { return strings.Contains(err.Error(), "0xff") },
		"bmc-503":                 func(err error) bool { return strings.Contains(err.Error(), "0xc0, busy") },
		"bmc-hang":                func(err error) bool { return errors.Is(err, bmc.ErrUnreachable) },
		"bmc-down":                func(err error) bool { return errors.Is(err, bmc.ErrUnreachable) },
		"bmc-password":            func(err error) bool { return errors.Is(err, bmc.ErrCredentials) },
		"bmc-503:count=2":         nil,
		"bmc-hang:count=1":        nil,
		"bmc-down:count=1":        nil,
		"bmc-slow:delay=0.3s":     nil,
		"bmc-500:after=1,count=1": nil,
		"bmc-sessions:count=1":    nil,
	}
	for text, want := range bad {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, simipmi.Options{})
			d := r.open(t)
			is(t, d, store.PowerOff)
			f, err := flaw.ParseFault(text)
			if err != nil {
				t.Fatal(err)
			}
			r.Flaws.Inject(f)
			ctx := t.Context()
			switch f.Kind {
			case flaw.BMCPassword, flaw.BMCSessions: // a login is hit
				must(t, d.Close())
			case flaw.BMCHang, flaw.BMCDown: // once the first try is lost, so are all
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 1500*time.Millisecond)
				defer cancel()
			}
			_, err = d.PowerState(ctx)
			if want == nil && err != nil || want != nil && (err == nil || !want(err)) {
				t.Errorf("got %v", err)
			}
			if r.Flaws.Hits(f.Kind) == 0 && f.After == 0 {
				t.Error("the fault never hit")
			}
			r.Flaws.Heal()
			is(t, d, store.PowerOff)
		})
	}
}

func TestNoSessionLeft(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.0", "1.5"} {
		r := newRig(t, simipmi.Options{Sessions: 1})
		is(t, r.open(t, "ipmi_protocol_version", version), store.PowerOff)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // it would wait longer for room
		_, err := r.open(t, "ipmi_protocol_version", version).PowerState(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "no room for another session") {
			t.Errorf("%s: the second session: got %v, want no room", version, err)
		}
	}
}

// TestSlowAnswersEnd closes a server that has answers to give.
func TestSlowAnswersEnd(t *testing.T) {
	r := newRig(t, simipmi.Options{})
	r.Flaws.Inject(flaw.Fault{Kind: flaw.BMCSlow, Delay: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.open(t).PowerState(ctx); err == nil {
		t.Error("there was an answer within the hour")
	}
}

// A clock is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// TestBootFlagsExpire holds the controller to table 28-14: boot flags are
// valid for 60 seconds, unless it was told otherwise or the machine started.
func TestBootFlagsExpire(t *testing.T) {
	for _, tt := range []struct {
		name  string
		keep  bool
		after time.Duration
		start bool
		want  bmc.BootDevice
	}{
		{"in time", false, 59 * time.Second, false, bmc.Disk},
		{"too late", false, 61 * time.Second, false, ""},
		{"told to keep them", true, time.Hour, false, bmc.Disk},
		{"started in time", false, time.Hour, true, bmc.Disk},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &clock{now: time.Unix(2e9, 0)}
			r := newRig(t, simipmi.Options{Now: c.Now})
			d := r.open(t, "ipmi_disable_boot_timeout", tt.keep)
			must(t, d.SetBoot(t.Context(), bmc.Boot{Device: bmc.Disk, Mode: sim.UEFI, Persistent: true}))
			if tt.start {
				must(t, d.Power(t.Context(), bmc.On))
			}
			must(t, d.Close()) // the session would not last so long
			c.add(tt.after)
			if b, err := d.Boot(t.Context()); err != nil || b.Device != tt.want || r.machine.Boot().Device != tt.want {
				t.Errorf("got %s, %v, and %s at the machine, want %q", b, err, r.machine.Boot(), tt.want)
			}
		})
	}
}

// TestOtherSettingsAreLeft has another protocol set the boot device meanwhile.
func TestOtherSettingsAreLeft(t *testing.T) {
	c := &clock{now: time.Unix(2e9, 0)}
	r := newRig(t, simipmi.Options{Now: c.Now})
	d := r.open(t, "ipmi_disable_boot_timeout", false)
	must(t, d.SetBoot(t.Context(), bmc.Boot{Device: bmc.Disk, Mode: sim.UEFI}))
	want := bmc.Boot{Device: bmc.PXE, Mode: sim.BIOS, Persistent: true}
	must(t, r.machine.SetBoot(want))
	must(t, d.Close())
	c.add(time.Hour)
	if b, err := d.Boot(t.Context()); err != nil || b != want || r.machine.Boot() != want {
		t.Errorf("got %s, %v, and %s at the machine, want %s", b, err, r.machine.Boot(), want)
	}
}

func TestPasswordsAreBytes(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"12345678", "0x1f", "ä$`\"'\\ %s", "16-bytes-exactly", "20-bytes-exactly-now", "\x01\x7f"} {
		r := newRig(t, simipmi.Options{Password: password})
		is(t, r.open(t, "ipmi_password", password), store.PowerOff)
		if _, err := r.open(t, "ipmi_password", password[:len(password)-1]).PowerState(t.Context()); !errors.Is(err, bmc.ErrCredentials) {
			t.Errorf("%q less its last byte: got %v, want ErrCredentials", password, err)
		}
	}
}
