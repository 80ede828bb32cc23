package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

var errStalled = errors.New("no byte arrived in time")

// identity tells versions of a file apart.
type identity struct {
	etag, modified string
	size           int64 // -1: unknown
}

func (i identity) bound() bool { return i.etag != "" || i.modified != "" }

// newIdentity reads the identity from an answer; size is the whole file's.
func newIdentity(h http.Header, size int64) identity {
	return identity{h.Get("ETag"), h.Get("Last-Modified"), size}
}

// target is a file on a server and how to ask for it.
type target struct {
	client *http.Client
	url    string
	limits Limits
}

// get asks for the file from an offset to an end (exclusive; 0: the rest). The
// caller closes the body. The status is 200 or 206.
func (t target) get(ctx context.Context, from, to int64, id identity) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: not a URL", ErrRefused)
	}
	r.Header.Set("Accept-Encoding", "identity")
	if from > 0 || to > 0 {
		setRange(r.Header, from, to, id)
	}
	resp, err := t.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", shown(t.url), cause(ctx, err))
	}
	if err := t.checkAnswer(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

func setRange(h http.Header, from, to int64, id identity) {
	end := ""
	if to > 0 {
		end = strconv.FormatInt(to-1, 10)
	}
	h.Set("Range", fmt.Sprintf("bytes=%d-%s", from, end))
	if id.etag != "" && !strings.HasPrefix(id.etag, "W/") { // RFC 9110 13.1.5: weak ones never match
		h.Set("If-Range", id.etag)
	}
}

func (t target) checkAnswer(resp *http.Response) error {
	switch {
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("get %s: %w: it is shorter than before", shown(t.url), ErrChanged)
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent:
		return &retryable{&StatusError{shown(t.url), resp.StatusCode}, retryAfter(resp.Header)}
	case resp.Header.Get("Content-Encoding") != "" && resp.Header.Get("Content-Encoding") != "identity":
		return fmt.Errorf("get %s: %w: the server compresses what we asked for as it is (Content-Encoding %q)",
			shown(t.url), ErrRefused, resp.Header.Get("Content-Encoding"))
	}
	return nil
}

// retryable is an answer with the pause that the server asks for.
type retryable struct {
	*StatusError
	after time.Duration
}

// Unwrap gives the StatusError to errors.As.
func (r *retryable) Unwrap() error { return r.StatusError }

func retryAfter(h http.Header) time.Duration {
	s, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || s < 0 {
		return 0
	}
	return min(time.Duration(s)*time.Second, 30*time.Second)
}

// pause waits before try n (from 1), for 70 to 120 % of the backoff.
func (l Limits) pause(ctx context.Context, n int, err error) error {
	d := l.Backoff << min(n-1, 5)
	d = time.Duration(float64(d) * (0.7 + 0.5*l.Dice()))
	var r *retryable
	if errors.As(err, &r) {
		d = max(d, r.after)
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// contentRange parses "bytes 5-9/10" (RFC 9110 14.4); total is -1 for "*".
func contentRange(s string) (first, last, total int64, ok bool) {
	var end string
	if _, err := fmt.Sscanf(s, "bytes %d-%d/%s", &first, &last, &end); err != nil {
		return 0, 0, 0, false
	}
	if end == "*" {
		return first, last, -1, true
	}
	total, err := strconv.ParseInt(end, 10, 64)
	return first, last, total, err == nil && first <= last && last < total
}

// cause takes the URL, which may carry a signature, out of an error, and
// prefers the reason why a request was cancelled.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

// shown is a URL as errors may show it: without its query, which may sign it.
func shown(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the URL"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}
