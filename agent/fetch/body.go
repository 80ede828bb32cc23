package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// progressWorthMentioning is how much must have arrived before a broken
// connection counts as the first one again.
const progressWorthMentioning = 16 << 20

// A Body is a file that is being downloaded. It is for one goroutine.
type Body struct {
	target
	ctx context.Context // a reader has no other place for it
	id  identity
	off int64 // bytes handed out

	conn   io.ReadCloser // nil between connections
	cancel context.CancelCauseFunc
	reqctx context.Context
	skip   int64 // bytes to drop after a server ignored our Range

	fails int   // broken connections since mark
	mark  int64 // off at the first of them
}

// Open starts to download a file. Connections that break are taken up where
// they stopped, if the server's ETag or Last-Modified shows that the file is
// the same (else ErrChanged). It does not retry on 4xx and refusals. The
// context ends the whole download. The client must come from a [Policy].
func Open(ctx context.Context, c *http.Client, url string, l Limits) (*Body, error) {
	b := &Body{target: target{c, url, l.withDefaults()}, ctx: ctx}
	if err := b.connect(); err != nil {
		return nil, err
	}
	return b, nil
}

// Size is the file's size in bytes, or -1 when the server does not tell.
func (b *Body) Size() int64 { return b.id.size }

// Version tells this version of the file from others at the same URL, as far as
// the server does: by ETag, time of change and size.
func (b *Body) Version() string {
	return fmt.Sprintf("%q %q %d", b.id.etag, b.id.modified, b.id.size)
}

// Close ends the download.
func (b *Body) Close() error {
	b.drop(context.Canceled)
	return nil
}

// Read implements io.Reader. An error other than io.EOF is final.
func (b *Body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if b.conn == nil {
			if err := b.connect(); err != nil {
				return 0, err
			}
		}
		n, err := b.readOnce(p)
		if b.skip > 0 {
			b.skip -= int64(n)
			n = 0
		}
		b.off += int64(n)
		if l := b.limits.MaxSize; l > 0 && b.off > l {
			b.drop(ErrTooLarge)
			return 0, fmt.Errorf("get %s: %w: more than %d bytes", shown(b.url), ErrTooLarge, l)
		}
		if done, err := b.after(err); done || n > 0 {
			return n, err
		}
	}
}

// readOnce reads from the connection, within the stall time.
func (b *Body) readOnce(p []byte) (int, error) {
	if b.skip > 0 {
		p = p[:min(int64(len(p)), b.skip)]
	}
	t := time.AfterFunc(b.limits.Stall, func() { b.cancel(errStalled) })
	defer t.Stop()
	return b.conn.Read(p)
}

// after judges the end of a read: done reports that err is for the caller.
func (b *Body) after(err error) (done bool, _ error) {
	switch {
	case err == nil:
		return false, nil
	case err == io.EOF && b.skip == 0 && (b.id.size < 0 || b.off == b.id.size):
		return true, io.EOF
	case b.ctx.Err() != nil:
		return true, fmt.Errorf("get %s: %w", shown(b.url), context.Cause(b.ctx))
	}
	why := cause(b.reqctx, err)
	b.drop(why)
	if b.off-b.mark >= progressWorthMentioning {
		b.fails = 0
	}
	if b.fails == 0 {
		b.mark = b.off
	}
	if b.fails++; b.fails >= b.limits.Attempts {
		return true, b.broken(why)
	}
	if err := b.limits.pause(b.ctx, b.fails, nil); err != nil {
		return true, err
	}
	return false, nil
}

func (b *Body) broken(why error) error {
	if errors.Is(why, io.EOF) {
		why = io.ErrUnexpectedEOF
	}
	of := ""
	if b.id.size >= 0 {
		of = fmt.Sprintf(" of %d", b.id.size)
	}
	return fmt.Errorf("get %s: the connection broke %d times, last after %d%s bytes: %w; check the server, and that it has the whole file", shown(b.url), b.fails, b.off, of, why)
}

// connect asks for what is still missing, trying again as the limits say.
func (b *Body) connect() error {
	for n := 1; ; n++ {
		err := b.connectOnce()
		if err == nil || final(err) || b.ctx.Err() != nil {
			return err
		}
		if n >= b.limits.Attempts {
			return fmt.Errorf("%w (tried %d times)", err, n)
		}
		if err := b.limits.pause(b.ctx, n, err); err != nil {
			return err
		}
	}
}

func (b *Body) connectOnce() error {
	if b.off > 0 && !b.id.bound() {
		return fmt.Errorf("get %s: %w: or not, but the server gives neither ETag nor Last-Modified to tell, so a broken download cannot go on",
			shown(b.url), ErrChanged)
	}
	b.reqctx, b.cancel = context.WithCancelCause(b.ctx)
	resp, err := b.get(b.reqctx, b.off, 0, b.id)
	if err != nil {
		b.cancel(err)
		return err
	}
	b.conn = resp.Body
	if err := b.place(resp); err != nil {
		b.drop(err)
		return err
	}
	return nil
}

// place finds out where in the file an answer begins, and whether it is still
// the file that we began with.
func (b *Body) place(resp *http.Response) error {
	if b.off == 0 && resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: the server sent a part of the file, we asked for the whole", shown(b.url))
	}
	if b.off == 0 {
		b.id = newIdentity(resp.Header, resp.ContentLength)
		if l := b.limits.MaxSize; l > 0 && resp.ContentLength > l {
			return fmt.Errorf("get %s: %w: %d bytes, at most %d are allowed", shown(b.url), ErrTooLarge, resp.ContentLength, l)
		}
		return nil
	}
	start, size := int64(0), resp.ContentLength
	if resp.StatusCode == http.StatusPartialContent {
		first, _, total, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || first != b.off {
			return fmt.Errorf("get %s: the server answered a request from byte %d with Content-Range %q", shown(b.url), b.off, resp.Header.Get("Content-Range"))
		}
		start, size = first, total
	}
	if newIdentity(resp.Header, size) != b.id {
		return fmt.Errorf("get %s: %w", shown(b.url), ErrChanged)
	}
	b.skip = b.off - start
	return nil
}

func (b *Body) drop(why error) {
	if b.cancel != nil {
		b.cancel(why)
	}
	if b.conn != nil {
		b.conn.Close()
		b.conn = nil
	}
}
