package conductor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bessemer/bmc"
	"bessemer/store"
)

// BootDevice implements [API].
func (c *Conductor) BootDevice(ctx context.Context, node string) (bmc.Boot, error) {
	client, ctx, err := c.client(ctx, node)
	if err != nil {
		return bmc.Boot{}, err
	}
	return client.Boot(ctx)
}

// SupportedBootDevices implements [API].
func (c *Conductor) SupportedBootDevices(ctx context.Context, node string) ([]bmc.BootDevice, error) {
	client, ctx, err := c.client(ctx, node)
	if err != nil {
		return nil, err
	}
	return client.BootDevices(ctx)
}

// SetBootDevice implements [API]. It holds the node's lock meanwhile, so that
// no run begins in between.
func (c *Conductor) SetBootDevice(ctx context.Context, node string, b bmc.Boot) error {
	client, ctx, err := c.client(ctx, node)
	if err != nil {
		return err
	}
	devices, err := client.BootDevices(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(devices, b.Device) {
		return fmt.Errorf("%w: boot device %q is none of the node's: %v", ErrInvalid, clip(string(b.Device), 50), devices)
	}
	return c.withLock(node, "set boot device", func(n *store.Node) error {
		if b.Mode == "" {
			b.Mode = bootMode(n)
		}
		return client.SetBoot(ctx, b)
	})
}

func (c *Conductor) client(ctx context.Context, node string) (*bmc.Client, context.Context, error) {
	n, err := c.node(node)
	if err != nil {
		return nil, ctx, err
	}
	client, err := c.config.BMC.Client(n)
	if err != nil {
		return nil, ctx, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	s := store.ScopeFrom(ctx)
	s.Node = n.UUID
	return client, store.WithScope(ctx, s), nil
}

// withLock calls fn while it holds a node's lock. A lock that outlives its
// process is cleared at the next start.
func (c *Conductor) withLock(node, why string, fn func(*store.Node) error) error {
	var held *store.Node
	err := c.db.Batch(func(tx *store.Tx) error {
		n, err := findNode(tx, node)
		if err != nil {
			return err
		}
		if n.Run != 0 || n.Reservation != nil {
			return locked(n)
		}
		now := time.Now()
		n.Reservation = &store.Reservation{Holder: c.config.Hostname, Why: why, Since: now, Expires: now.Add(c.config.Timeouts.Step), Process: c.process}
		held = n
		return store.Nodes.Put(tx, n)
	})
	if err != nil {
		return err
	}
	defer c.unlock(held)
	return fn(held)
}

// unlock gives a node's lock back, if it is still the one that was taken.
func (c *Conductor) unlock(held *store.Node) {
	err := c.db.Batch(func(tx *store.Tx) error {
		n, err := findNode(tx, held.UUID)
		if err != nil {
			return err
		}
		if n.Run == 0 && n.Reservation != nil && n.Reservation.Since.Equal(held.Reservation.Since) {
			n.Reservation = nil
			return store.Nodes.Put(tx, n)
		}
		return nil
	})
	if err != nil {
		c.log.Error().Err(err).Str("node", held.UUID).Msg("give a node's lock back")
	}
}
