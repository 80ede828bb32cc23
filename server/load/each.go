package load

import (
	"context"
	"sync"
	"time"
)

// each calls do for every item, some at once, and returns how long each call
// took that succeeded, and the errors of the others.
func each[T any](ctx context.Context, workers int, items []T, done func(n int), do func(context.Context, T) error) (took []time.Duration, errs []error) {
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	work := make(chan T)
	for range min(workers, len(items)) {
		wg.Go(func() {
			for item := range work {
				begun := time.Now()
				err := do(ctx, item)
				d := time.Since(begun)
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else {
					took = append(took, d)
				}
				n := len(took) + len(errs)
				mu.Unlock()
				done(n)
			}
		})
	}
	for _, item := range items {
		if ctx.Err() != nil {
			break
		}
		work <- item
	}
	close(work)
	wg.Wait()
	return took, errs
}
