package boot

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Console writes lines to all consoles of the kernel and remembers the last
// ones. A console that does not take its bytes (a serial line with flow
// control and nobody at its end) loses lines and holds nobody up.
type Console struct {
	start time.Time
	outs  []chan []byte
	ring  ring
}

// consoleQueue is how many lines may wait for a slow console.
const consoleQueue = 256

// openConsole opens the consoles that the kernel writes to.
func openConsole(debug bool) *Console {
	level := "2" // the kernel's own lines only when it is about to stop
	if debug {
		level = "7"
	}
	_ = os.WriteFile("/proc/sys/kernel/printk", []byte(level), 0) // too many or too few lines are no failure
	c := &Console{start: bootTime()}
	for _, device := range activeConsoles() {
		f, err := os.OpenFile(device, os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		c.add(f)
	}
	return c
}

// activeConsoles are the devices of the kernel's consoles: "tty0 ttyS0". The
// kernel itself writes to all of them, /dev/console only to the last.
func activeConsoles() []string {
	b, _ := os.ReadFile("/sys/class/tty/console/active")
	var devices []string
	for name := range strings.FieldsSeq(string(b)) {
		devices = append(devices, "/dev/"+name)
	}
	if len(devices) == 0 {
		return []string{"/dev/console"}
	}
	return devices
}

// add starts the goroutine that feeds w. It lives as long as the process, like
// the console itself.
func (c *Console) add(w io.Writer) {
	out := make(chan []byte, consoleQueue)
	c.outs = append(c.outs, out)
	go func() {
		for line := range out {
			_, _ = w.Write(line) // there is no better place to say so
		}
	}()
}

// Printf writes a line, after the seconds since the machine's kernel started.
func (c *Console) Printf(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	var all bytes.Buffer
	for line := range strings.Lines(text) {
		fmt.Fprintf(&all, "[%8.2f] %s\r\n", time.Since(c.start).Seconds(), strings.TrimRight(line, "\r\n"))
	}
	_, _ = c.Write(all.Bytes())
}

// Write writes to all consoles. It never fails or waits.
func (c *Console) Write(p []byte) (int, error) {
	line := bytes.Clone(p)
	_, _ = c.ring.Write(line)
	for _, out := range c.outs {
		select {
		case out <- line:
		default:
		}
	}
	return len(p), nil
}

// Log returns what was written last, up to 64 KiB.
func (c *Console) Log() []byte { return c.ring.bytes() }

// ringSize is how much of the console is remembered.
const ringSize = 64 << 10

// A ring keeps the last bytes written to it.
type ring struct {
	mu  sync.Mutex
	buf []byte
}

func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, p...)
	if over := len(r.buf) - ringSize; over > ringSize { // cut rarely, not at each line
		r.buf = append(r.buf[:0], r.buf[over:]...)
	}
	return len(p), nil
}

func (r *ring) bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.buf[max(0, len(r.buf)-ringSize):])
}

// bootTime is when the kernel started, by its own clock.
func bootTime() time.Time {
	b, err := os.ReadFile("/proc/uptime")
	var up float64
	if err == nil {
		_, err = fmt.Sscanf(string(b), "%f", &up)
	}
	if err != nil {
		return time.Now()
	}
	return time.Now().Add(-time.Duration(up * float64(time.Second)))
}

// memory says how much of the machine's memory is free.
func memory() string {
	b, _ := os.ReadFile("/proc/meminfo")
	total, free := meminfo(string(b), "MemTotal:"), meminfo(string(b), "MemAvailable:")
	return fmt.Sprintf("%d of %d MiB of memory free", free>>10, total>>10)
}

// meminfo finds a line of /proc/meminfo, in KiB; 0 if there is none.
func meminfo(text, key string) (kib int64) {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == key {
			kib, _ = strconv.ParseInt(words[1], 10, 64) // 0 is "unknown"
		}
	}
	return kib
}
