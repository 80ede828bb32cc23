package fake

import (
	"context"
	"time"
)

// FailAt returns a script that fails the n-th call of a method with err, or
// every call when n is 0.
func FailAt(method string, n int, err error) func(context.Context, Call) error {
	return func(_ context.Context, c Call) error {
		if c.Method == method && (n == 0 || c.N == n) {
			return err
		}
		return nil
	}
}

// HangAt returns a script in which the n-th call of a method, or every one
// when n is 0, gets no answer until its context ends.
func HangAt(method string, n int) func(context.Context, Call) error {
	return func(ctx context.Context, c Call) error {
		if c.Method != method || (n != 0 && c.N != n) {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// DelayAt returns a script in which every call of a method takes so long.
func DelayAt(method string, d time.Duration) func(context.Context, Call) error {
	return func(ctx context.Context, c Call) error {
		if c.Method != method {
			return nil
		}
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
