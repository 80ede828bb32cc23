package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// reachable reads the power state, for the state itself and to see whether
// the controller answers.
func reachable(ctx context.Context, t *Task) error {
	client, err := t.BMC()
	if err != nil {
		return final(err)
	}
	s, err := client.PowerState(bmc.Quiet(ctx))
	if err != nil {
		return hint(err)
	}
	t.setPower(s)
	return nil
}

// powerOff turns the machine off, whatever runs on it.
func powerOff(ctx context.Context, t *Task) error {
	client, err := t.BMC()
	if err != nil {
		return final(err)
	}
	if err := client.PowerOff(ctx); err != nil {
		return hint(err)
	}
	t.forgetAgent()
	t.setPower(store.PowerOff)
	return nil
}

// powerOn turns the machine on. Controllers that keep no boot device (B-04)
// have been told it just before.
func powerOn(ctx context.Context, t *Task) error {
	client, err := t.BMC()
	if err != nil {
		return final(err)
	}
	if err := client.PowerOn(ctx); err != nil {
		return hint(err)
	}
	t.setPower(store.PowerOn)
	return nil
}

// reboot starts the machine for the ramdisk. The steps before have turned it
// off, so nothing of an earlier boot can speak while the agent's token is
// cleared; and a start that was noted and is seen to have happened is not
// done a second time.
func reboot(ctx context.Context, t *Task) error {
	client, err := t.BMC()
	if err != nil {
		return final(err)
	}
	if t.Run.Ramdisk == nil {
		return back("set-ramdisk-dhcp")
	}
	if t.Run.Ramdisk.BootedAt.IsZero() {
		if err := t.admit(t.c.boots); err != nil {
			return err
		}
		t.forgetAgent()
		t.Run.Ramdisk.Boots++
		t.Run.Ramdisk.BootedAt = time.Now()
		if err := t.Checkpoint(ctx); err != nil {
			return err
		}
	} else if s, err := client.PowerState(bmc.Quiet(ctx)); err == nil && s == store.PowerOn {
		t.setPower(s)
		return nil
	}
	if err := client.Reboot(ctx); err != nil {
		return hint(err)
	}
	t.setPower(store.PowerOn)
	return nil
}

// powerOffAfterFailure turns a node off whose workflow failed, so that a half
// written disk does not boot and the ramdisk does not linger.
func powerOffAfterFailure(ctx context.Context, t *Task) error {
	if t.c.config.KeepPowerOnError || !t.touched() {
		return nil
	}
	return powerOff(ctx, t)
}

// touched reports whether the run has come so far as to act on the machine.
func (t *Task) touched() bool {
	for _, s := range t.Run.Steps {
		if s.Name == "power-off" {
			return true
		}
	}
	return false
}

// setBootPXE has the machine boot from the network once. One that did not do
// so at its first start is told from which network card (B-16), of several
// ports another one each time; but not where its controller has just refused
// that, or did not show it.
func setBootPXE(ctx context.Context, t *Task) error {
	b := bmc.Boot{Device: bmc.PXE, Mode: bootMode(t.Node)}
	if t.Run.Ramdisk != nil {
		b.Card = cardToName(t.Ports, t.Run.Ramdisk.Boots, t.Run.Attempt)
	}
	return t.setBoot(ctx, b)
}

// cardToName is the network card that the boot device names after so many
// starts without a ramdisk, at first none, and so many failed tries to set it.
func cardToName(ports []*store.Port, starts, tries int) string {
	var cards []string
	for _, p := range ports {
		if p.PXEEnabled {
			cards = append(cards, p.Address)
		}
	}
	if starts == 0 || tries > 0 || len(cards) == 0 {
		return ""
	}
	return cards[(starts-1)%len(cards)]
}

// setBootDisk has the machine boot from its disk from now on. It is set even
// where the override for the network was for one boot only: some controllers
// keep it for all. Not so on Lenovo's machines whose firmware has the agent's
// boot entry: they stop with a question, "Boot Option Restoration", when both
// were changed (U-01).
func setBootDisk(ctx context.Context, t *Task) error {
	entry, _ := t.Run.Data["boot_entry"].(bool)
	if vendor, _ := t.Node.Properties["vendor"].(string); entry && takesOneBootChange(vendor) {
		t.c.db.Record(ctx, store.Message{
			From: store.Conductor, To: store.Conductor, Kind: store.Self, Label: store.LabelKeepBootDevice, Detail: map[string]any{
				"why": "the agent has made a boot entry, and a machine of " + clip(vendor, 100) + " stops with a question when its controller is told of the disk as well",
			},
		})
		return nil
	}
	return t.setBoot(ctx, bmc.Boot{Device: bmc.Disk, Mode: bootMode(t.Node), Persistent: true})
}

// takesOneBootChange reports whether a vendor's machines bear a change of the
// firmware's boot entries or of the controller's boot device, not of both.
func takesOneBootChange(vendor string) bool {
	return strings.HasPrefix(strings.ToLower(vendor), "lenovo")
}

func (t *Task) setBoot(ctx context.Context, b bmc.Boot) error {
	client, err := t.BMC()
	if err != nil {
		return final(err)
	}
	if err := client.SetBoot(ctx, b); err != nil {
		return hint(err)
	}
	return nil
}

// setPower records a power state that was seen; "" is one that could not be
// made out.
func (t *Task) setPower(s store.PowerState) {
	if s == "" {
		return
	}
	t.c.index.sawPower(t.Node.UUID)
	t.Change(func(n *store.Node) { n.PowerState = s })
}

// forgetAgent clears what is known of the agent: the boot that it was of is
// over.
func (t *Task) forgetAgent() {
	t.Change(func(n *store.Node) { n.Agent = store.Agent{} })
}

// hint adds what to do to an error of a controller.
func hint(err error) error {
	switch {
	case errors.Is(err, bmc.ErrCredentials):
		return final(fmt.Errorf("%w; correct user and password in driver_info", err))
	case errors.Is(err, bmc.ErrTLS):
		return final(fmt.Errorf("%w; trust its certificate in driver_info", err))
	case errors.Is(err, bmc.ErrUnsupported):
		return final(err)
	case errors.Is(err, bmc.ErrUnreachable):
		return fmt.Errorf("%w; check the controller's address, network and power", err)
	}
	return err
}
