package load

import (
	"context"
	"net/http"
	"sync"
	"time"

	"bessemer/server/client"
)

// A lister lists nodes all the while, as dashboards do: a page of a hundred,
// one after the other with a short pause.
type lister struct {
	api  *client.Client
	wg   sync.WaitGroup
	took []time.Duration
	errs []error
	span time.Duration
}

const listPause = 50 * time.Millisecond

func newLister(api *client.Client) *lister { return &lister{api: api} }

func (l *lister) begin(ctx context.Context) {
	l.wg.Go(func() {
		begun := time.Now()
		defer func() { l.span = time.Since(begun) }()
		for ctx.Err() == nil {
			l.once(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(listPause):
			}
		}
	})
}

// once lists one page. That the appliance is away, being killed on purpose, is
// not the lister's to report.
func (l *lister) once(ctx context.Context) {
	begun := time.Now()
	err := l.api.Call(ctx, http.MethodGet, "/v1/nodes?limit=100", nil, nil)
	switch {
	case ctx.Err() != nil || isAway(err):
	case err != nil:
		l.errs = append(l.errs, err)
	default:
		l.took = append(l.took, time.Since(begun))
	}
}

func (l *lister) wait() { l.wg.Wait() }

func (l *lister) results() []Result {
	return []Result{sum("list limit=100", l.span, l.took, l.errs)}
}
