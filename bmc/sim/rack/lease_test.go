package rack

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"bessemer/bmc/sim/firmware"
)

// TestTenure: a lease is renewed half-way, again soon when nobody answers, and
// given up when it is another's.
func TestTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		said := ""
		answers := []error{nil, errors.New("no answer"), nil, firmware.ErrLeaseLost}
		tn := &tenure{}
		tn.renew = func() (time.Duration, error) {
			said += fmt.Sprintf("%v ", time.Since(begun))
			err := answers[0]
			answers = answers[1:]
			return 10 * time.Minute, err
		}
		tn.lost = func(error) { said += "lost" }
		tn.after(20 * time.Minute)
		time.Sleep(3 * time.Hour)
		tn.end()
		if want := "10m0s 15m0s 15m30s 20m30s lost"; said != want {
			t.Errorf("got %q, want %q", said, want)
		}
		for _, d := range []time.Duration{0, foreverLease} {
			(&tenure{renew: func() (time.Duration, error) { t.Errorf("a lease of %v was renewed", d); return 0, nil }}).after(d)
		}
		ended := &tenure{renew: func() (time.Duration, error) { t.Error("renewed after the end"); return 0, nil }}
		ended.after(time.Minute)
		ended.end()
		time.Sleep(time.Hour)
	})
}
