package bmc_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"bessemer/bmc"
	"bessemer/bmc/fake"
	"bessemer/store"
	"bessemer/store/storetest"
)

func TestSetBootIsReadBack(t *testing.T) {
	want := bmc.Boot{Device: bmc.PXE, Mode: "uefi"}
	tests := []struct {
		name string
		set  bmc.Boot
		got  bmc.Boot
		err  error // of the read
		fail string
		note bool
	}{
		{name: "as asked", set: want, got: want},
		{name: "mode not told (B-05)", set: want, got: bmc.Boot{Device: bmc.PXE}},
		{name: "another device", set: want, got: bmc.Boot{Device: bmc.Disk, Mode: "uefi"}, fail: "wrong device"},
		{name: "nothing set", set: want, got: bmc.Boot{}, fail: "says none"},
		{name: "a mode that shows after the next start (B-14)", set: want, got: bmc.Boot{Device: bmc.PXE, Mode: "bios"}, note: true},
		{name: "persistent taken for once (B-04)", set: bmc.Boot{Device: bmc.PXE, Persistent: true}, got: bmc.Boot{Device: bmc.PXE}, note: true},
		{name: "once taken for persistent", set: want, got: bmc.Boot{Device: bmc.PXE, Persistent: true}, note: true},
		{name: "read-back means nothing", set: want, err: bmc.ErrNoReadBack, note: true},
		{name: "read fails", set: want, err: errRefused, fail: "409"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := &storetest.Recorder{}
				d := &forgetful{Driver: fake.New(), boot: tt.got, err: tt.err}
				types := bmc.Types{"x": {Open: func(bmc.Target) (bmc.Driver, error) { return d, nil }}}
				p := bmc.NewPool(types, rec, bmc.PoolOptions{})
				defer p.Close()
				c, _ := p.Client(&store.Node{UUID: "n", Driver: "x"})
				err := c.SetBoot(t.Context(), tt.set)
				if tt.fail == "" && err != nil || tt.fail != "" && (err == nil || !strings.Contains(err.Error(), tt.fail)) {
					t.Errorf("got error %v, want one with %q", err, tt.fail)
				}
				var notes int
				for _, m := range rec.Messages() {
					if m.Label == store.LabelControllerNote {
						notes++
					}
				}
				if got := notes == 1; got != tt.note {
					t.Errorf("got %d notes, want a note: %v", notes, tt.note)
				}
			})
		})
	}
}

// A boot mode may show late (B-14), but not later than the next start.
func TestBootModeThatNeverShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &forgetful{Driver: fake.New(), boot: bmc.Boot{Device: bmc.PXE, Mode: "bios"}}
		types := bmc.Types{"x": {Open: func(bmc.Target) (bmc.Driver, error) { return d, nil }}}
		p := bmc.NewPool(types, &storetest.Recorder{}, bmc.PoolOptions{})
		defer p.Close()
		c, err := p.Client(&store.Node{UUID: "n", Driver: "x"})
		if err != nil {
			t.Fatal(err)
		}
		want := bmc.Boot{Device: bmc.PXE, Mode: "uefi"}
		for range 2 { // as often as before the start
			if err := c.SetBoot(t.Context(), want); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.SetBoot(t.Context(), want); err == nil || !strings.Contains(err.Error(), "wrong boot mode") {
			t.Errorf("got %v after a start, want an error", err)
		}
		d.boot = want
		if err := c.SetBoot(t.Context(), want); err != nil {
			t.Error(err)
		}
	})
}

type forgetful struct {
	*fake.Driver
	boot bmc.Boot
	err  error
}

func (d *forgetful) Boot(context.Context) (bmc.Boot, error) { return d.boot, d.err }

func TestBootThatCannotBeReadIsNone(t *testing.T) {
	for _, tt := range []struct {
		got, want bmc.Boot
		err       error
	}{
		{got: bmc.Boot{Device: bmc.Disk}, want: bmc.Boot{Device: bmc.Disk}},
		{err: bmc.ErrNoReadBack},
	} {
		d := &forgetful{Driver: fake.New(), boot: tt.got, err: tt.err}
		types := bmc.Types{"x": {Open: func(bmc.Target) (bmc.Driver, error) { return d, nil }}}
		p := bmc.NewPool(types, &storetest.Recorder{}, bmc.PoolOptions{})
		defer p.Close()
		c, err := p.Client(&store.Node{UUID: "n", Driver: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Boot(t.Context()); err != nil || got != tt.want {
			t.Errorf("got %s, %v, want %s", got, err, tt.want)
		}
	}
}
