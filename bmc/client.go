package bmc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"bessemer/store"
)

// A Client is how the appliance uses a machine's controller. Each method is
// one arrow of the sequence diagram and may be called again for what is
// already so. Get one from a [Pool].
type Client struct {
	node, kind, address string
	info                map[string]any
	secrets             []string
	driver              Driver
	gate                *gate
	fuse                *fuse
	rec                 store.Recorder
	o                   PoolOptions
	closed              atomic.Bool
	mode                modeChange
	cut                 atomic.Bool // the controller has cut the power since the machine was seen on
}

var errClosed = errors.New("the node's driver_info has changed or the node is gone")

// Identify logs in and returns what the controller says of itself.
func (c *Client) Identify(ctx context.Context) (info Info, err error) {
	err = c.arrow(ctx, store.LabelVerifyBMC, func(ctx context.Context) error {
		return c.do(ctx, "identify the controller", func(ctx context.Context) (err error) {
			info, err = c.driver.Identify(ctx)
			return err
		})
	})
	return info, err
}

// arrow records a request, what fn does of it, and its reply.
func (c *Client) arrow(ctx context.Context, label string, fn func(context.Context) error) error {
	ctx, l := withLedger(ctx)
	m := store.Message{From: store.Conductor, To: store.BMC, Label: label, Node: c.node}
	var reply func(error, *store.Wire)
	if !isQuiet(ctx) {
		reply = store.Send(ctx, c.rec, m)
	}
	err := fn(ctx)
	if err != nil && reply == nil {
		reply = store.Send(ctx, c.rec, m)
	}
	wire, notes := l.read()
	if reply != nil {
		reply(err, wire)
	}
	if !isQuiet(ctx) {
		c.note(ctx, label, notes)
	}
	return err
}

func (c *Client) note(ctx context.Context, label string, notes []string) {
	for _, text := range notes {
		text = ScrubText(text, c.secrets...)
		c.rec.Record(ctx, store.Message{
			From: store.Conductor, To: store.Conductor, Kind: store.Self, Label: store.LabelControllerNote, Node: c.node,
			Detail: map[string]any{"of": label, "note": text},
		})
		c.o.Log.Warn().Str("node", c.node).Str("controller", c.address).Str("of", label).Msg(text)
	}
}

// do makes one call of the driver: alone on its controller, within the call
// timeout, not while logins are refused. A panic of the driver is an error.
func (c *Client) do(ctx context.Context, what string, fn func(context.Context) error) error {
	err := c.through(ctx, fn)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s at %s with driver %s: %w", what, c.address, c.kind, Scrub(err, c.secrets...))
}

func (c *Client) through(ctx context.Context, fn func(context.Context) error) error {
	if err := c.gate.enter(ctx); err != nil {
		return err
	}
	defer c.gate.leave()
	if c.closed.Load() {
		return errClosed
	}
	if err := c.fuse.check(); err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
	defer cancel()
	err := c.guard(call, fn)
	switch {
	case err == nil:
		c.fuse.report(false)
	case errors.Is(err, ErrCredentials):
		c.fuse.report(true)
	case ctx.Err() == nil && call.Err() != nil:
		return fmt.Errorf("%w within %v: %w", ErrUnreachable, c.o.CallTimeout, err)
	}
	return err
}

// guard turns a panic of the driver into an error that names it.
func (c *Client) guard(ctx context.Context, fn func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("driver %s panicked: %v", c.kind, v)
			c.o.Log.Error().Str("node", c.node).Str("driver", c.kind).
				Str("stack", ScrubText(strings.TrimSpace(string(debug.Stack())), c.secrets...)).
				Msg(ScrubText(err.Error(), c.secrets...))
		}
	}()
	return fn(ctx)
}

// close ends the session, after the call that may be going on.
func (c *Client) close() error {
	c.closed.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), c.o.CallTimeout)
	defer cancel()
	if err := c.gate.enter(ctx); err == nil {
		defer c.gate.leave()
	}
	return Scrub(c.guard(ctx, func(context.Context) error { return c.driver.Close() }), c.secrets...)
}

// A poll spaces reads of a state: soon at first, then more and more slowly.
type poll struct {
	next, max time.Duration
	deadline  time.Time
}

func (c *Client) poll(within time.Duration) *poll {
	return &poll{c.o.PollMin, c.o.PollMax, time.Now().Add(within)}
}

// wait sleeps until the next read is due. It returns false when the time is
// over, which is after one read at the deadline itself, or when ctx ends.
func (p *poll) wait(ctx context.Context) bool {
	left := time.Until(p.deadline)
	if left <= 0 {
		return false
	}
	t := time.NewTimer(min(p.next, left))
	defer t.Stop()
	p.next = min(p.next*3/2, p.max)
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
