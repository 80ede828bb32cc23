package rack

import (
	"errors"
	"os"
	"sync"
)

// maxConsole is how large a console's file may get, in bytes, before a start
// begins it anew.
const maxConsole = 128 << 10

// A console is a machine's screen as a file. It is open only while it is
// written to: a thousand machines would need a thousand descriptors.
type console struct {
	path string
	mu   sync.Mutex
}

// Write implements io.Writer.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := os.OpenFile(c.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := f.Write(p)
	return n, errors.Join(err, f.Close())
}

// trim empties a long screen. One that cannot be emptied just gets longer.
func (c *console) trim() {
	if st, err := os.Stat(c.path); err == nil && st.Size() > maxConsole {
		_ = os.Truncate(c.path, 0)
	}
}
