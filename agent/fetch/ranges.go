package fetch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Ranges returns random access to the file that b downloads, or nil when the
// server does not say its size and a validator, or offers no ranges. Each read
// is one request, bound to the same version of the file (else ErrChanged). It
// may be used by several goroutines and after b is closed; ctx ends it.
func (b *Body) Ranges(ctx context.Context) io.ReaderAt {
	if b.id.size < 0 || !b.id.bound() {
		return nil
	}
	return &ranges{b.target, ctx, b.id}
}

type ranges struct {
	target
	ctx context.Context // as in Body
	id  identity
}

// ReadAt implements io.ReaderAt.
func (r *ranges) ReadAt(p []byte, off int64) (int, error) {
	if off >= r.id.size {
		return 0, io.EOF
	}
	want := p[:min(int64(len(p)), r.id.size-off)]
	for n := 1; ; n++ {
		err := r.readOnce(want, off)
		switch {
		case err == nil && len(want) < len(p):
			return len(want), io.EOF
		case err == nil:
			return len(want), nil
		case final(err), r.ctx.Err() != nil:
			return 0, err
		case n >= r.limits.Attempts:
			return 0, fmt.Errorf("%w (tried %d times)", err, n)
		}
		if err := r.limits.pause(r.ctx, n, err); err != nil {
			return 0, err
		}
	}
}

func (r *ranges) readOnce(p []byte, off int64) error {
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	resp, err := r.get(ctx, off, off+int64(len(p)), r.id)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := r.checkPlace(resp, off, len(p)); err != nil {
		return err
	}
	t := time.AfterFunc(r.limits.Stall, func() { cancel(errStalled) })
	defer t.Stop()
	for n := 0; n < len(p); {
		m, err := resp.Body.Read(p[n:])
		if n += m; n < len(p) && err != nil {
			return fmt.Errorf("get %s: %w", shown(r.url), cause(ctx, err))
		}
		t.Reset(r.limits.Stall)
	}
	return nil
}

func (r *ranges) checkPlace(resp *http.Response, off int64, n int) error {
	first, last, total, ok := contentRange(resp.Header.Get("Content-Range"))
	if resp.StatusCode == http.StatusOK {
		if newIdentity(resp.Header, resp.ContentLength) != r.id {
			return fmt.Errorf("get %s: %w", shown(r.url), ErrChanged)
		}
		return fmt.Errorf("get %s: %w: the server does not serve parts of files", shown(r.url), ErrRefused)
	}
	if newIdentity(resp.Header, total) != r.id {
		return fmt.Errorf("get %s: %w", shown(r.url), ErrChanged)
	}
	if !ok || first != off || last != off+int64(n)-1 {
		return fmt.Errorf("get %s: asked for bytes %d-%d, the server answered with Content-Range %q",
			shown(r.url), off, off+int64(n)-1, resp.Header.Get("Content-Range"))
	}
	return nil
}
