package conductor

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bessemer/store"
)

func TestPollsGrowRareWithTheirNumber(t *testing.T) {
	for _, tt := range []struct {
		since   time.Duration
		working int
		want    time.Duration
	}{
		{0, 1, 200 * time.Millisecond},
		{2 * time.Second, 3, time.Second},
		{2 * time.Minute, 3, 2 * time.Second},
		{0, 20, time.Second},
		{2 * time.Second, 100, 5 * time.Second},
		{2 * time.Second, 3000, 15 * time.Second},
	} {
		if got := grain(tt.since, tt.working); got != tt.want {
			t.Errorf("%v, %d at work: %v, want %v", tt.since, tt.working, got, tt.want)
		}
	}
}

// TestPowerSyncReadsWhatNobodyHasSeen: a state that a run has just read is not
// read again.
func TestPowerSyncReadsWhatNobodyHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		w := newQuietWorld(t, func(c *Config) { c.Timeouts.PowerSync = 2 * time.Minute })
		fn := func(method string) error {
			if method == "power state" {
				reads.Add(1)
			}
			return nil
		}
		w.trouble.Store(&fn)
		w.enroll(store.Available)
		w.after(110 * time.Second)
		if err := w.SetPower(t.Context(), testNode, store.PowerOn, 0); err != nil {
			t.Fatal(err)
		}
		w.after(time.Second)
		before := reads.Load()
		w.after(20 * time.Second) // a round
		if before == 0 || reads.Load() != before {
			t.Errorf("%d reads by the run, then %d by the sync", before, reads.Load()-before)
		}
		w.after(2 * time.Minute)
		if reads.Load() != before+1 {
			t.Errorf("%d reads in the next round", reads.Load()-before)
		}
	})
}
