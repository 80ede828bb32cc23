package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// Patience is how long WaitState bears an appliance that does not answer: it
// may be restarting, and what a node does goes on after that.
const Patience = time.Minute

// WaitState polls a node until done says so, calling seen with each new
// reading, and returns the last one. It ends with ctx, with a refusal, or when
// the appliance has been silent for [Patience].
func (c *Client) WaitState(ctx context.Context, node string, done func(n map[string]any) bool, seen func(n map[string]any)) (map[string]any, error) {
	var last map[string]any
	var silent time.Time // since when; zero: it answers
	pause := 50 * time.Millisecond
	for {
		var n map[string]any
		err := c.Get(ctx, "/v1/nodes/"+url.PathEscape(node), &n)
		switch {
		case ctx.Err() != nil:
			return last, ctx.Err()
		case err == nil:
			last, silent = n, time.Time{}
			if seen != nil {
				seen(n)
			}
			if done(n) {
				return n, nil
			}
		case !passing(err):
			return last, err
		case silent.IsZero():
			silent = time.Now()
		case time.Since(silent) > Patience:
			return last, err
		}
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(pause*3/2, 500*time.Millisecond)
	}
}

// passing tells whether an error may be gone a moment later: no answer, or
// one that asks to come again.
func passing(err error) bool {
	if _, ok := errors.AsType[*Unreachable](err); ok {
		return true
	}
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Status == http.StatusTooManyRequests || e.Status == http.StatusBadGateway || e.Status == http.StatusServiceUnavailable)
}
