package bmc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"bessemer/store"
)

// ErrNoReadBack is returned by [Driver.Boot] when what the controller says of
// its boot setting is known to mean nothing. The client then takes an
// accepted setting for set, and notes it.
var ErrNoReadBack = errors.New("boot setting cannot be read back")

// Boot reads the boot setting. A setting that cannot be read is the zero Boot.
func (c *Client) Boot(ctx context.Context) (b Boot, err error) {
	err = c.arrow(ctx, store.LabelReadBootDevice, func(ctx context.Context) error {
		b, err = c.boot(ctx)
		if errors.Is(err, ErrNoReadBack) {
			b, err = Boot{}, nil
		}
		return err
	})
	return b, err
}

// SetBoot sets the boot device, or clears it when b has none, reads it back, and grades what it reads: a
// wrong device or mode is an error, a setting that was taken for another
// duration than asked (B-04) is noted.
func (c *Client) SetBoot(ctx context.Context, b Boot) error {
	return c.arrow(ctx, setBootLabel(b.Device), func(ctx context.Context) error {
		what := fmt.Sprintf("set boot device %s", b)
		err := c.do(ctx, what, func(ctx context.Context) error { return c.driver.SetBoot(ctx, b) })
		if err != nil {
			return err
		}
		return c.confirm(ctx, what, b)
	})
}

// BootDevices lists the boot devices that SetBoot accepts.
func (c *Client) BootDevices(ctx context.Context) (ds []BootDevice, err error) {
	err = c.arrow(ctx, store.LabelListBootDevices, func(ctx context.Context) error {
		return c.do(ctx, "list boot devices", func(ctx context.Context) (err error) {
			ds, err = c.driver.BootDevices(ctx)
			return err
		})
	})
	return ds, err
}

// confirm reads the boot setting until it is as wanted, for a few seconds:
// many controllers answer from a cache (B-08).
func (c *Client) confirm(ctx context.Context, what string, want Boot) error {
	for p := c.poll(c.o.Settle); ; {
		got, err := c.boot(ctx)
		if errors.Is(err, ErrNoReadBack) {
			Note(ctx, fmt.Sprintf("%s was accepted, but cannot be confirmed: %v", want, err))
			return nil
		}
		wrong, note := grade(want, got)
		if err == nil && wrong == "" {
			c.mode.seen(got.Mode)
			if note != "" {
				Note(ctx, note)
			}
			return nil
		}
		if final(ctx, err) {
			return orEnded(ctx, err)
		}
		if !p.wait(ctx) {
			if err == nil && ctx.Err() == nil && wrong == wrongMode && c.mode.awaits(want.Mode) {
				Note(ctx, fmt.Sprintf("the controller still shows boot mode %s; it may show %s only after the next start", got.Mode, want.Mode))
				return nil
			}
			if err == nil && ctx.Err() == nil {
				err = fmt.Errorf("%s at %s with driver %s: the controller accepted it, but then says %s: %s; set it by hand, or look for a firmware update",
					what, c.address, c.kind, got, wrong)
			}
			return orEnded(ctx, err)
		}
	}
}

func (c *Client) boot(ctx context.Context) (b Boot, err error) {
	err = c.do(ctx, "read the boot device", func(ctx context.Context) (err error) {
		b, err = c.driver.Boot(ctx)
		return err
	})
	return b, err
}

const wrongMode = "wrong boot mode"

// A modeChange is a change of the boot mode that a controller took and does
// not show yet: many show it only after the machine's next start (B-14).
type modeChange struct {
	mu     sync.Mutex
	to     string // "" when none is under way
	passed bool   // the machine has been started since
}

// awaits reports whether a change to a mode may still show: once, until the
// machine has been started.
func (m *modeChange) awaits(to string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.to == to && m.passed {
		return false
	}
	m.to, m.passed = to, m.passed && m.to == to
	return true
}

// seen notes the mode that the controller shows.
func (m *modeChange) seen(mode string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.to == mode {
		m.to, m.passed = "", false
	}
}

// started notes a start of the machine.
func (m *modeChange) started(yes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passed = m.passed || yes && m.to != ""
}

// grade compares a boot setting with the one that was asked for. A mode that
// was not asked for, or that the controller does not tell (B-05), is not
// compared.
func grade(want, got Boot) (wrong, note string) {
	switch {
	case got.Device != want.Device:
		return "wrong device", ""
	case want.Mode != "" && got.Mode != "" && got.Mode != want.Mode:
		return wrongMode, ""
	case want.Persistent && !got.Persistent:
		return "", fmt.Sprintf("the controller keeps boot device %s for one boot only", want.Device)
	case !want.Persistent && got.Persistent:
		return "", fmt.Sprintf("the controller keeps boot device %s for all boots, though it was asked for one", want.Device)
	}
	return "", ""
}

// String describes the setting in words: "pxe (uefi, once)".
func (b Boot) String() string {
	if b.Device == "" {
		return "none"
	}
	how := "once"
	if b.Persistent {
		how = "persistent"
	}
	if b.Mode != "" {
		how = b.Mode + ", " + how
	}
	return fmt.Sprintf("%s (%s)", b.Device, how)
}

func setBootLabel(d BootDevice) string {
	if d == "" {
		d = "none"
	}
	return store.LabelBootDevice + ": " + string(d)
}
