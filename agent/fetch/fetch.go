// Package fetch gets files from HTTP servers that an operator or a tenant
// named. It is used wherever an address comes from outside: images, checksums,
// config drives, kernels.
//
// A [Policy] says which hosts may be asked. It is applied to the text of the
// URL before any I/O, to every redirect, and to the IP address at the moment
// of connecting, so that a name that resolves to something else the second
// time gains nothing.
//
// [Open] streams a file and goes on after a broken connection where it
// stopped, as long as the server shows that the file is still the same one.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// ErrRefused is wrapped by every error of a Policy: the address is one that we
// do not talk to. Trying again is no use.
var ErrRefused = errors.New("address refused")

// ErrChanged is wrapped when a file changed on the server while it was read.
var ErrChanged = errors.New("file changed while it was read")

// ErrTooLarge is wrapped when a file is larger than Limits.MaxSize.
var ErrTooLarge = errors.New("file too large")

// A StatusError is an HTTP answer that ends a download. It is final for 4xx
// other codes have been tried Limits.Attempts times.
type StatusError struct {
	URL  string
	Code int
}

// Error names the URL and the code.
func (e *StatusError) Error() string {
	return fmt.Sprintf("get %s: the server answered %d %s", e.URL, e.Code, http.StatusText(e.Code))
}

// Limits bound a download; the zero value is usable.
type Limits struct {
	MaxSize  int64          // bytes; 0: no limit
	Stall    time.Duration  // longest wait for the next bytes; 0: 30 s
	Attempts int            // tries without progress worth mentioning; 0: 5
	Backoff  time.Duration  // first pause between tries, doubled each time; 0: 500 ms
	Dice     func() float64 // from 0 to below 1, spread the pauses; nil: math/rand's
}

func (l Limits) withDefaults() Limits {
	if l.Stall == 0 {
		l.Stall = 30 * time.Second
	}
	if l.Attempts == 0 {
		l.Attempts = 5
	}
	if l.Backoff == 0 {
		l.Backoff = 500 * time.Millisecond
	}
	if l.Dice == nil {
		l.Dice = rand.Float64
	}
	return l
}

// ReadAll gets a small file wholly, such as a checksum or a config drive; l says
// how large it may be.
func ReadAll(ctx context.Context, c *http.Client, url string, l Limits) ([]byte, error) {
	b, err := Open(ctx, c, url, l)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return io.ReadAll(b)
}
