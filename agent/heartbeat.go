package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"bessemer/agent/wire"
)

// minGap is the shortest time between two heartbeats.
const minGap = 300 * time.Millisecond

var errLocked = errors.New("locked down")

// heart sends heartbeats: regularly, and at once after each command.
type heart struct {
	api     *api
	node    *node
	body    wire.Heartbeat
	minor   int
	forced  chan struct{}
	locked  chan struct{} // closed when no more heartbeats shall be sent
	timeout time.Duration
	dice    func() float64
	log     zerolog.Logger
}

func newHeart(c Config, a *api, n *node, id *identity) *heart {
	return &heart{
		api: a, node: n, timeout: n.timeout, dice: c.Dice, minor: min(n.minor, heartbeatVersion),
		body: wire.Heartbeat{
			CallbackURL: id.url, AgentToken: n.token,
			AgentVersion: c.Version, AgentVerifyCA: string(id.pem),
		},
		forced: make(chan struct{}, 1),
		log:    c.Logger,
	}
}

// now asks for a heartbeat soon; it never blocks.
func (h *heart) now() {
	select {
	case h.forced <- struct{}{}:
	default:
	}
}

// run beats until ctx ends.
func (h *heart) run(ctx context.Context) error {
	failures := 0
	for {
		if err := h.beat(ctx); err != nil && ctx.Err() == nil {
			failures++
			h.log.Warn().Err(err).Int("in_a_row", failures).Msg("heartbeat, trying again")
		} else {
			failures = 0
		}
		if err := h.wait(ctx, pauseAfter(failures, h.timeout, h.dice())); errors.Is(err, errLocked) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// pauseAfter is the time to the next heartbeat: a part of the timeout when all
// is well, else soon, spread by a die from 0 to 1.
func pauseAfter(failures int, timeout time.Duration, die float64) time.Duration {
	if failures == 0 {
		return time.Duration(float64(timeout) * (0.3 + 0.3*die))
	}
	d := min(time.Second<<min(failures-1, 4), 5*time.Second, timeout/2)
	return time.Duration(float64(d) * (0.7 + 0.5*die))
}

func (h *heart) wait(ctx context.Context, d time.Duration) error {
	if err := sleep(ctx, minGap); err != nil {
		return err
	}
	t := time.NewTimer(d - minGap)
	defer t.Stop()
	select {
	case <-t.C:
	case <-h.forced:
	case <-h.locked:
		return errLocked
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// beat sends one heartbeat; only 202 is a good answer.
func (h *heart) beat(ctx context.Context) error {
	ans, err := h.api.call(ctx, http.MethodPost, wire.HeartbeatPath+h.node.UUID, h.minor, h.body)
	if err != nil {
		return err
	}
	if ans.code != http.StatusAccepted {
		return fmt.Errorf("the server answered %d: %s", ans.code, explain(ans.body))
	}
	return nil
}
