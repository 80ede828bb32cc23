package boot

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A resolver keeps resolv.conf: the name servers of all links, those of the
// preferred link first.
type resolver struct {
	path    string
	mu      sync.Mutex
	servers map[int][]net.IP // by metric
}

// maxNameServers is how many a C library looks at, and Go's resolver too.
const maxNameServers = 3

// set replaces the name servers of the link with this metric.
func (r *resolver) set(metric int, servers []net.IP) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.servers, metric)
	if len(servers) > 0 {
		r.servers[metric] = servers
	}
	var text strings.Builder
	var written []string
	for _, m := range slices.Sorted(maps.Keys(r.servers)) {
		for _, ip := range r.servers[m] {
			if s := ip.String(); len(written) < maxNameServers && !slices.Contains(written, s) {
				written = append(written, s)
				fmt.Fprintf(&text, "nameserver %s\n", s)
			}
		}
	}
	if err := os.MkdirAll(filepath.Dir(r.path), 0o755); err != nil {
		return fmt.Errorf("write name servers: %w", err)
	}
	next := r.path + ".next" // a reader sees the old file or the new one
	if err := errors.Join(os.WriteFile(next, []byte(text.String()), 0o644), os.Rename(next, r.path)); err != nil {
		return fmt.Errorf("write name servers: %w", err)
	}
	return nil
}

func setHostname(name string) error {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("set host name %q: %w", name, err)
	}
	return nil
}
