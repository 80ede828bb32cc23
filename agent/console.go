package agent

import (
	"fmt"
	"io"
	"sync"
	"time"

	"bessemer/agent/wire"
)

// console writes status lines for a person who looks at the machine's screen:
// "12:03:04 write image: 34% 120 MB/s, 8 s left".
type console struct {
	mu   sync.Mutex
	w    io.Writer
	last time.Time // of the last progress line
}

func newConsole(w io.Writer) *console { return &console{w: w} }

// say writes a line. A screen that cannot be written to is no reason to stop.
func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line(fmt.Sprintf(format, args...))
}

// progress writes how far a command has come, at most every two seconds.
func (c *console) progress(p wire.Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.last) < 2*time.Second {
		return
	}
	c.last = time.Now()
	c.line(describe(p))
}

func (c *console) line(s string) {
	fmt.Fprintf(c.w, "%s %s\r\n", time.Now().UTC().Format("15:04:05"), s)
}

// describe puts progress into words.
func describe(p wire.Progress) string {
	s := p.What + ": "
	if p.Total > 0 {
		s += fmt.Sprintf("%d%%", min(100, p.Done*100/p.Total))
	} else {
		s += fmt.Sprintf("%d MB", p.Done/1e6)
	}
	if p.Rate > 0 {
		s += fmt.Sprintf(" %.0f MB/s", p.Rate/1e6)
	}
	if p.ETA > 0 {
		s += fmt.Sprintf(", %.0f s left", p.ETA)
	}
	return s
}
