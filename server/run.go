package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"
)

// A component is a part that runs as long as the appliance does.
type component struct {
	name string
	run  func(context.Context) error
}

// runAll runs the components until ctx ends or one of them ends, with or
// without an error; then it ends the others and waits for them.
func runAll(ctx context.Context, components []component) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range components {
		group.Go(func() (err error) {
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("%s: panic: %v\n%s", c.name, r, debug.Stack())
				}
			}()
			err = c.run(ctx)
			switch {
			case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
				return nil
			case err == nil:
				return fmt.Errorf("%s ended by itself", c.name)
			}
			return fmt.Errorf("%s: %w", c.name, err)
		})
	}
	return group.Wait()
}

// later runs a component's function only after a while.
func later(wait time.Duration, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return run(ctx)
		}
	}
}

// every calls fn now and then each interval, until ctx ends.
func every(interval time.Duration, fn func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error {
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			fn(ctx)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-t.C:
			}
		}
	}
}
