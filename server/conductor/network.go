package conductor

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"

	"bessemer/store"
)

// Networks that a port can be bound to.
const (
	provisioningNet = "provisioning"
	cleaningNet     = "cleaning"
	tenantNet       = "tenant"
)

// carry draws the arrow from the conductor to a participant inside this
// process, around the call that it stands for.
func (t *Task) carry(ctx context.Context, to store.Participant, label string, call func() error) error {
	reply := store.Send(ctx, t.c.db, store.Message{From: store.Conductor, To: to, Label: label})
	err := call()
	reply(err, nil)
	return err
}

func attachProvisioning(ctx context.Context, t *Task) error {
	return t.carry(ctx, store.DHCP, store.LabelAttachNetwork, func() error { return t.bind(provisioningNet) })
}

func detachProvisioning(ctx context.Context, t *Task) error {
	return t.carry(ctx, store.DHCP, store.LabelDetachNetwork, func() error { return t.bind("") })
}

func attachCleaning(ctx context.Context, t *Task) error {
	return t.carry(ctx, store.DHCP, store.LabelAttachCleaning, func() error { return t.bind(cleaningNet) })
}

func detachCleaning(ctx context.Context, t *Task) error {
	return t.carry(ctx, store.DHCP, store.LabelDetachCleaning, func() error { return t.bind("") })
}

// bindTenant puts the ports that have a VIF onto the tenant's network; all of
// them where nobody has plugged any, as on a rack with one flat network.
func bindTenant(ctx context.Context, t *Task) error {
	return t.carry(ctx, store.DHCP, store.LabelBindTenantPort, func() error {
		plugged := len(vifs(t.Ports)) > 0
		return t.changePorts(func(p *store.Port) {
			p.Network = ""
			if !plugged || vifOf(p) != "" {
				p.Network = tenantNet
			}
		})
	})
}

// unbindTenant takes the ports off the tenant's network.
func unbindTenant(ctx context.Context, t *Task) error {
	return t.carry(ctx, store.DHCP, store.LabelUnbindTenantPort, func() error { return t.bind("") })
}

func (t *Task) bind(network string) error {
	return t.changePorts(func(p *store.Port) { p.Network = network })
}

// changePorts changes the node's ports as they are when the step is saved.
func (t *Task) changePorts(change func(*store.Port)) error {
	for _, p := range t.Ports {
		change(p)
	}
	node := t.Node.UUID
	t.Write(func(tx *store.Tx) error {
		var ports []*store.Port
		for p, err := range store.Ports.Where(tx, "node_uuid", node) {
			if err != nil {
				return err
			}
			ports = append(ports, p)
		}
		for _, p := range ports {
			change(p)
			p.UpdatedAt = time.Now()
			if err := store.Ports.Put(tx, p); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

// bootRamdisk has the boot servers answer the node with the ramdisk from now
// on, under URLs that nobody can guess.
func bootRamdisk(ctx context.Context, t *Task) error {
	err := t.carry(ctx, store.DHCP, store.LabelUpdateDHCP, func() error {
		t.Run.Ramdisk = &store.RamdiskBoot{Token: newToken(), Boots: t.boots()}
		return nil
	})
	t.Note(ctx, store.LabelPreparePXE)
	return err
}

// bootDisk has the boot servers answer the node with its own disk again.
func bootDisk(ctx context.Context, t *Task) error {
	err := t.carry(ctx, store.DHCP, store.LabelUpdateDHCP, func() error {
		t.keep("boots", t.boots()) // it may have to go back
		t.Run.Ramdisk = nil
		return nil
	})
	t.Note(ctx, instanceLabel(t))
	return err
}

func instanceLabel(t *Task) string {
	if t.w.Target == store.Active && !t.tidying {
		return store.LabelPrepareInstance
	}
	return store.LabelCleanUpPXE
}

// newToken returns 32 random bytes as text that may stand in a URL.
func newToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
