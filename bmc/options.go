package bmc

import (
	"time"

	"github.com/rs/zerolog"

	"bessemer/store"
)

// PoolOptions are the limits of a [Pool]. Zero values mean the defaults.
type PoolOptions struct {
	ConnectTimeout time.Duration // to reach a controller; 30 s
	CallTimeout    time.Duration // one call of a driver; 60 s
	PowerWait      time.Duration // for a power action to take effect; 60 s
	SoftWait       time.Duration // for an operating system to shut down when the caller names no time; 10 min
	Settle         time.Duration // for a state to become stable, or a write to be read back; 5 s
	PollMin        time.Duration // first interval between two reads of a state; 0.2 s
	PollMax        time.Duration // longest interval; 2 s
	// Logins is how many refused logins in a row make a client stop trying
	// for CoolDown, so that the controller does not lock the account;
	// 2 and 10 min.
	Logins   int
	CoolDown time.Duration

	// DB is where sessions are noted, so that those which a crash has left
	// open can be ended; nil: they are not.
	DB *store.DB

	Log zerolog.Logger
}

func (o PoolOptions) withDefaults() PoolOptions {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&o.ConnectTimeout, 30 * time.Second},
		{&o.CallTimeout, time.Minute},
		{&o.PowerWait, time.Minute},
		{&o.SoftWait, 10 * time.Minute},
		{&o.Settle, 5 * time.Second},
		{&o.PollMin, 200 * time.Millisecond},
		{&o.PollMax, 2 * time.Second},
		{&o.CoolDown, 10 * time.Minute},
	} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if o.Logins <= 0 {
		o.Logins = 2
	}
	return o
}
