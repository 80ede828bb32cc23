package sim_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/store"
)

// deploy does what deploying and undeploying do with a controller.
func (b *bench) deploy() {
	b.t.Helper()
	ctx := b.t.Context()
	info, err := b.client.Identify(ctx)
	b.ok("identify", err)
	if info.SystemUUID != b.m.Spec().UUID {
		b.t.Errorf("got %+v", info)
	}
	b.ok("power on", b.client.PowerOn(ctx))
	b.bootNetwork(ctx)
	b.lasting(ctx, bmc.PXE)
	b.ok("reboot", b.client.Reboot(ctx))
	b.lasting(ctx, bmc.Disk)
	b.ok("power off", b.client.PowerOff(ctx))
	b.ok("power on", b.client.PowerOn(ctx))
	if got := b.started(); got.Device != bmc.Disk {
		b.t.Errorf("started from %s, want the disk", got)
	}
	b.ok("clear", b.client.SetBoot(ctx, bmc.Boot{}))
	b.ok("power off", b.client.PowerOff(ctx))
	if s, err := b.client.PowerState(ctx); err != nil || s != store.PowerOff || b.m.PowerState() != s {
		b.t.Errorf("got state %q, %v", s, err)
	}
}

// bootNetwork is how the conductor starts the ramdisk: when it does not call,
// all is done again, a few times.
func (b *bench) bootNetwork(ctx context.Context) {
	b.t.Helper()
	for b.tries = 1; ; b.tries++ {
		want := bmc.Boot{Device: bmc.PXE, Mode: sim.UEFI}
		if b.tries > 1 {
			want.Card = "52:54:00:be:55:02"
		}
		b.ok("set boot device", b.client.SetBoot(ctx, want))
		if got, err := b.client.Boot(ctx); err != nil || got.Device != bmc.PXE || got.Persistent {
			b.t.Errorf("read back %s, %v", got, err)
		}
		starts := len(b.m.Starts())
		b.ok("reboot", b.client.Reboot(ctx))
		if n := len(b.m.Starts()); n != starts+1 {
			b.t.Fatalf("the machine started %d times in a reboot", n-starts)
		}
		if b.started().Device == bmc.PXE {
			return
		}
		if b.tries == 3 {
			b.t.Fatalf("booted %v", b.m.Starts())
		}
	}
}

// lasting sets a boot device for good.
func (b *bench) lasting(ctx context.Context, d bmc.BootDevice) {
	b.t.Helper()
	b.ok("set boot device", b.client.SetBoot(ctx, bmc.Boot{Device: d, Mode: sim.UEFI, Persistent: true}))
	if got := b.m.Boot(); got.Device != d || got.Persistent == b.ctl.Flaws.On("B-04") {
		b.t.Errorf("the machine has %s, want %s for good", got, d)
	}
}

// becomes waits until the machine is in a state.
func (b *bench) becomes(want store.PowerState) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); b.m.PowerState() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("the machine is %q, and does not become %q", b.m.PowerState(), want)
		}
	}
}

// shows turns the machine on, and off and on again, until the controller says
// state while is holds.
func (b *bench) shows(state string, is func() bool) {
	b.t.Helper()
	var got []any
	for range 10 {
		b.raw("GET", benchSystem, "") // is what a controller shows that remembers
		b.answers(204, "POST", benchReset, `{"ResetType": "On"}`)
		for range 20 {
			held := is()
			_, d := b.raw("GET", benchSystem, "")
			if got = append(got, d["PowerState"]); held && d["PowerState"] == state {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		b.answers(204, "POST", benchReset, `{"ResetType": "ForceOff"}`)
		time.Sleep(500 * time.Millisecond)
	}
	b.t.Errorf("states %v", got)
}

// neededTries checks how often the machine was started for the network.
func (b *bench) neededTries(want int) {
	b.t.Helper()
	if b.tries != want {
		b.t.Errorf("%d tries, want %d: %v", b.tries, want, b.m.Starts())
	}
}

func (b *bench) cards(want ...string) {
	b.t.Helper()
	if info, err := b.client.Identify(b.t.Context()); err != nil || !slices.Equal(info.MACs, want) {
		b.t.Errorf("got %v, %v, want %v", info.MACs, err, want)
	}
}

// wrongPasswords asks a controller that locks accounts with a wrong password,
// as a loop does that reads the power state.
func wrongPasswords(b *bench) {
	wrong := b.open("wrong-0815", benchSystem)
	for range 5 {
		if _, err := wrong.PowerState(b.t.Context()); !errors.Is(err, bmc.ErrCredentials) {
			b.t.Errorf("got %v, want ErrCredentials", err)
		}
	}
	_, err := b.open("right-4711", benchSystem).PowerState(b.t.Context())
	b.ok("the account is locked", err)
	for range 3 {
		b.answers(401, "GET", benchSystem, "", "Authorization", "Basic AAAA")
		b.answers(401, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "admin", "Password": "x"}`)
	}
	b.answers(401, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "admin", "Password": "right-4711"}`)
	b.ctl.Flaws.Turn(false, "R-11")
	b.answers(201, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "admin", "Password": "right-4711"}`)
	b.rf.DropSessions()
}
