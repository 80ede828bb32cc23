package boot

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// clockTolerance is how far the clock may be off. Certificates are dated back
// further than that.
const clockTolerance = time.Minute

// syncClock sets the clock by the server's if it is far off: hardware clocks
// are, by hours after a battery's end, and then no certificate is valid (quirk
// A server that does not answer now is the agent's business.
func (s *System) syncClock(ctx context.Context) {
	if s.Cmdline.APIURL == "" {
		return
	}
	off, err := clockOffset(ctx, s.Cmdline.APIURL)
	switch {
	case err != nil:
		s.say("clock: %v", err)
	case off.Abs() > clockTolerance:
		s.warn(setClock(time.Now().Add(off)))
		s.say("clock: was off by %v, set by the server's", off.Round(time.Second))
	}
}

// clockOffset asks the server for its time and returns how much is to be added
// to ours.
func clockOffset(ctx context.Context, url string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url+"/", nil)
	if err != nil {
		return 0, fmt.Errorf("ask %s for the time: %w", url, err)
	}
	client := &http.Client{
		// With a wrong clock no certificate can be checked; nothing but the
		// time is taken from the answer, and nothing is sent.
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	sent := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask the server for the time: %w", err)
	}
	resp.Body.Close()
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, fmt.Errorf("ask %s for the time: its answer has the date %q", url, resp.Header.Get("Date"))
	}
	return date.Sub(sent.Add(time.Since(sent) / 2)), nil
}

// setClock sets the kernel's clock and the hardware's, so that the deployed
// system starts with it.
func setClock(t time.Time) error {
	tv := unix.NsecToTimeval(t.UnixNano())
	if err := unix.Settimeofday(&tv); err != nil {
		return fmt.Errorf("set clock: %w", err)
	}
	rtc, err := os.OpenFile("/dev/rtc0", os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) { // virtual machines need none
		return nil
	}
	if err != nil {
		return fmt.Errorf("set hardware clock: %w", err)
	}
	defer rtc.Close()
	u := t.UTC()
	err = unix.IoctlSetRTCTime(int(rtc.Fd()), &unix.RTCTime{
		Sec: int32(u.Second()), Min: int32(u.Minute()), Hour: int32(u.Hour()),
		Mday: int32(u.Day()), Mon: int32(u.Month()) - 1, Year: int32(u.Year()) - 1900,
	})
	if err != nil {
		return fmt.Errorf("set hardware clock: %w", err)
	}
	return nil
}
