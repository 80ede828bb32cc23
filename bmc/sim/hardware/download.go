package hardware

import (
	"io"
	"net/http"
	"sync"
)

// stallAt is how much of a file arrives before its download stands still
//
const stallAt = 64 << 10

// Via is what stands between an agent and the servers that it downloads from:
// with A-05 the first download of each file stands still, and no connection is
// ended. It is made for fetch.Policy.
func (m *Machine) Via(next http.RoundTripper) http.RoundTripper {
	return &cable{next: next, machine: m, seen: map[string]bool{}}
}

type cable struct {
	next    http.RoundTripper
	machine *Machine

	mu   sync.Mutex
	seen map[string]bool // files that have been asked for
}

// RoundTrip implements http.RoundTripper.
func (c *cable) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil && c.machine.c.Flaws.On("A-05") && c.first(r.URL.Path) {
		resp.Body = &stalled{resp.Body, r, stallAt}
	}
	return resp, err
}

func (c *cable) first(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.seen[path]
	c.seen[path] = true
	return !before
}

// stalled is a body of which no more than a part arrives, until the request is
// given up.
type stalled struct {
	io.ReadCloser
	request *http.Request
	left    int
}

// Read implements io.Reader.
func (s *stalled) Read(p []byte) (int, error) {
	if s.left == 0 {
		<-s.request.Context().Done()
		return 0, s.request.Context().Err()
	}
	n, err := s.ReadCloser.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}
