package firmware

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// A machine that does not wait as long as a real one would not outlast a
// restart of the appliance, which takes no less time for it. So while the
// appliance is away, what is sent is sent again for a while that is not paced.
const (
	outage      = 10 * time.Second
	outagePause = 200 * time.Millisecond
)

// through tries to reach the appliance until it is there, or the outage has
// lasted too long. away tells of an error that the appliance is not there.
func (m *machine) through(ctx context.Context, away func(error) bool, try func() error) error {
	for begun := time.Now(); ; {
		err := try()
		if err == nil || !away(err) || ctx.Err() != nil || time.Since(begun) > m.patience(0, outage) {
			return err
		}
		select {
		case <-time.After(outagePause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func anyError(error) bool { return true }

// refused is what a connection attempt meets while nobody listens.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
