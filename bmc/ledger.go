package bmc

import (
	"context"
	"sync"

	"bessemer/store"
)

// A ledger collects what drivers do on the wire during one arrow.
type ledger struct {
	mu    sync.Mutex
	last  *store.Wire
	n     int
	notes []string
}

type ledgerKey struct{}

type quietKey struct{}

func withLedger(ctx context.Context) (context.Context, *ledger) {
	l := &ledger{}
	return context.WithValue(ctx, ledgerKey{}, l), l
}

// Exchanged tells the arrow that ctx belongs to of one exchange on the wire.
// Drivers' transports call it; w holds no secret and no body.
func Exchanged(ctx context.Context, w store.Wire) {
	l, ok := ctx.Value(ledgerKey{}).(*ledger)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	w.Exchanges = l.n
	l.last = &w
}

// Note tells the arrow that ctx belongs to of something that an operator
// should know though the call went well: a setting that the controller took
// only in part, a fallback. Each note is recorded once.
func Note(ctx context.Context, text string) {
	l, ok := ctx.Value(ledgerKey{}).(*ledger)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.notes {
		if n == text {
			return
		}
	}
	l.notes = append(l.notes, text)
}

func (l *ledger) read() (*store.Wire, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, l.notes
}

// Quiet returns a context under which a client records only calls that fail.
// It is for periodic reads, which would bury everything else.
func Quiet(ctx context.Context) context.Context {
	return context.WithValue(ctx, quietKey{}, true)
}

func isQuiet(ctx context.Context) bool {
	q, _ := ctx.Value(quietKey{}).(bool)
	return q
}
