package ipmi

import (
	"context"

	"bessemer/bmc"
)

var _ bmc.Cycler = (*driver)(nil)

// Cycle implements [bmc.Cycler]. A controller that does not take the power
// from what is off (I-04) is not asked twice: turning on shows what it is
// worth.
func (d *driver) Cycle(ctx context.Context) error {
	d.mu.Lock()
	_, err := d.run(ctx, cmdChassisControl, powerDown)
	d.mu.Unlock()
	if err != nil && code(err) == 0 {
		return err
	}
	return d.Power(ctx, bmc.On)
}
