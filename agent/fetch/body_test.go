package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// flaky serves a file with the misbehaviour that its fields say.
type flaky struct {
	data     []byte
	etag     string
	noRanges bool
	breakAt  int           // each answer ends after so many bytes; 0: never
	stallAt  int           // the first answer stops here without closing
	statuses []int         // answered first, one a request
	change   func(*flaky)  // called before the second request
	requests []http.Header // seen
	modified string
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.requests = append(f.requests, r.Header.Clone())
	if len(f.requests) == 2 && f.change != nil {
		f.change(f)
	}
	if n := len(f.requests); n <= len(f.statuses) && f.statuses[n-1] != 0 {
		w.WriteHeader(f.statuses[n-1])
		return
	}
	h := w.Header()
	if f.etag != "" {
		h.Set("ETag", f.etag)
	}
	if f.modified != "" {
		h.Set("Last-Modified", f.modified)
	}
	from, to, code := 0, len(f.data), http.StatusOK
	if s := r.Header.Get("Range"); s != "" && !f.noRanges && (r.Header.Get("If-Range") == "" || r.Header.Get("If-Range") == f.etag) {
		if n, _ := fmt.Sscanf(s, "bytes=%d-%d", &from, &to); n == 2 {
			to++
		}
		code = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(f.data)))
	}
	body := f.data[from:to]
	h.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(code)
	if f.stallAt > 0 && len(f.requests) == 1 {
		w.Write(body[:f.stallAt])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	if f.breakAt > 0 && len(body) > f.breakAt {
		w.Write(body[:f.breakAt])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	w.Write(body)
}

func loopback() Policy {
	return Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestOpen(t *testing.T) {
	data := randomBytes(300_000)
	tooOften := Limits{Attempts: 3, Backoff: time.Millisecond}
	for _, tt := range []struct {
		name     string
		server   flaky
		limits   Limits
		want     error  // nil: the data arrives whole
		says     string // in the error
		requests int    // 0: any
	}{
		{"whole", flaky{}, Limits{}, nil, "", 1},
		{"resumes by range", flaky{etag: `"a"`, breakAt: 100_000}, tooOften, nil, "", 0},
		{"resumes without ranges", flaky{etag: `"a"`, noRanges: true, breakAt: 0, stallAt: 70_000}, Limits{Stall: 100 * time.Millisecond, Backoff: 1}, nil, "", 2},
		{"resumes with a weak ETag", flaky{etag: `W/"a"`, breakAt: 200_000}, tooOften, nil, "", 0},
		{"resumes by date", flaky{modified: "Mon, 30 Nov 2026 09:38:04 GMT", breakAt: 200_000}, tooOften, nil, "", 0},
		{"stalls, resumes", flaky{etag: `"a"`, stallAt: 50_000}, Limits{Stall: 100 * time.Millisecond, Backoff: 1}, nil, "", 2},
		{"stalls for good", flaky{stallAt: 50_000}, Limits{Stall: 100 * time.Millisecond, Attempts: 1}, errStalled, "after", 1},
		{"always truncated", flaky{etag: `"a"`, noRanges: true, breakAt: 100_000}, tooOften, io.ErrUnexpectedEOF, "of 300000 bytes", 3},
		{"cannot resume without validator", flaky{breakAt: 100_000}, tooOften, ErrChanged, "ETag", 1},
		{"changed ETag", flaky{etag: `"a"`, breakAt: 100_000, change: func(f *flaky) { f.etag = `"b"` }}, tooOften, ErrChanged, "", 2},
		{"changed size", flaky{etag: `"a"`, breakAt: 100_000, change: func(f *flaky) { f.data = f.data[:200_000] }}, tooOften, ErrChanged, "", 2},
		{"404 is final", flaky{statuses: []int{404}}, tooOften, &StatusError{}, "404 Not Found", 1},
		{"503 twice", flaky{statuses: []int{503, 500}}, tooOften, nil, "", 3},
		{"503 for good", flaky{statuses: []int{503, 503, 503, 503}}, tooOften, &StatusError{}, "tried 3 times", 3},
		{"429 once", flaky{statuses: []int{429}}, tooOften, nil, "", 2},
		{"at the limit", flaky{}, Limits{MaxSize: 300_000}, nil, "", 1},
		{"too large", flaky{}, Limits{MaxSize: 299_999}, ErrTooLarge, "300000", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.server.data = data
			s := httptest.NewServer(&tt.server)
			defer s.Close()
			got, err := read(t, s.URL+"/x?signature=s3cret", tt.limits)
			if tt.want == nil {
				if err != nil || !bytes.Equal(got, data) {
					t.Fatalf("got %d bytes and %v, want the %d of the file", len(got), err, len(data))
				}
			} else if !is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("got %v, want %v with %q", err, tt.want, tt.says)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error tells the URL's query: %v", err)
			}
			if n := len(tt.server.requests); tt.requests != 0 && n != tt.requests {
				t.Errorf("%d requests, want %d", n, tt.requests)
			}
		})
	}
}

func is(err, want error) bool {
	if _, ok := want.(*StatusError); ok {
		var se *StatusError
		return errors.As(err, &se)
	}
	return errors.Is(err, want)
}

func read(t *testing.T, url string, l Limits) ([]byte, error) {
	b, err := Open(t.Context(), loopback().Client(), url, l)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return io.ReadAll(b)
}

func TestUnknownSizeIsLimited(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	if _, err := read(t, s.URL, Limits{MaxSize: 1 << 20}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("endless body: %v, want ErrTooLarge", err)
	}
}

func TestCompressedAnswerIsRefused(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("Accept-Encoding %q, want identity", got)
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Write([]byte("x"))
	}))
	defer s.Close()
	if _, err := read(t, s.URL, Limits{}); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want ErrRefused", err)
	}
}

func TestRanges(t *testing.T) {
	f := &flaky{data: randomBytes(100_000), etag: `"a"`}
	s := httptest.NewServer(f)
	defer s.Close()
	b, err := Open(t.Context(), loopback().Client(), s.URL, Limits{Backoff: 1, Attempts: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r := b.Ranges(t.Context())
	p := make([]byte, 1000)
	if n, err := r.ReadAt(p, 12_345); n != 1000 || err != nil || !bytes.Equal(p, f.data[12_345:13_345]) {
		t.Errorf("read inside: %d, %v", n, err)
	}
	if n, err := r.ReadAt(p, 99_900); n != 100 || err != io.EOF || !bytes.Equal(p[:100], f.data[99_900:]) {
		t.Errorf("read over the end: %d, %v; want 100, EOF", n, err)
	}
	if n, err := r.ReadAt(p, 100_000); n != 0 || err != io.EOF {
		t.Errorf("read behind the end: %d, %v; want 0, EOF", n, err)
	}
	f.breakAt = 500
	if _, err := r.ReadAt(p, 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("broken answer: %v, want ErrUnexpectedEOF", err)
	}
	f.breakAt, f.etag = 0, `"b"`
	if _, err := r.ReadAt(p, 0); !errors.Is(err, ErrChanged) {
		t.Errorf("changed file: %v, want ErrChanged", err)
	}
	f.noRanges, f.etag = true, `"a"`
	if _, err := r.ReadAt(p, 0); !errors.Is(err, ErrRefused) {
		t.Errorf("server without ranges: %v, want ErrRefused", err)
	}
}

func TestRangesNeedAValidator(t *testing.T) {
	s := httptest.NewServer(&flaky{data: []byte("x")})
	defer s.Close()
	b, err := Open(t.Context(), loopback().Client(), s.URL, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.Ranges(t.Context()) != nil {
		t.Error("got ranges of a file that cannot be told from its next version")
	}
}

// TestDiceSpreadPauses: a pause between tries lasts 70 to 120 % of the backoff,
// as the dice say.
func TestDiceSpreadPauses(t *testing.T) {
	for die, want := range map[float64]time.Duration{0: 700 * time.Millisecond, 1: 1200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			l, begun := Limits{Backoff: time.Second, Dice: func() float64 { return die }}, time.Now()
			if err := l.pause(t.Context(), 1, io.ErrUnexpectedEOF); err != nil || time.Since(begun) != want {
				t.Errorf("die %v: a pause of %s, %v; want %s", die, time.Since(begun), err, want)
			}
		})
	}
}

func TestReadAll(t *testing.T) {
	s := httptest.NewServer(&flaky{data: []byte("0123456789")})
	defer s.Close()
	got, err := ReadAll(t.Context(), loopback().Client(), s.URL, Limits{MaxSize: 10})
	if string(got) != "0123456789" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := ReadAll(t.Context(), loopback().Client(), s.URL, Limits{MaxSize: 9}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}
