package rack

import (
	"bytes"
	"io"
	"os"
	"sync"

	"bessemer/agent/hw"
	"bessemer/bmc/sim/hardware"
)

// powered is a machine's hardware during one start of the agent: what is
// written to its disks goes into the journal.
type powered struct {
	*hardware.Machine
	machine *Machine
	run     *run
}

// OpenDisk implements hw.Machine.
func (p powered) OpenDisk(name string, writable bool) (hw.Disk, error) {
	d, err := p.Machine.OpenDisk(name, writable)
	if err != nil || !writable {
		return d, err
	}
	return &drive{d, p, name}, nil
}

// Logs implements hw.Machine: the console is all that there is.
func (p powered) Logs() map[string]io.Reader {
	b, err := os.ReadFile(p.machine.console.path)
	if err != nil {
		b = []byte(err.Error())
	}
	return map[string]io.Reader{"console": bytes.NewReader(b)}
}

// A drive is a disk that is open for writing.
type drive struct {
	hw.Disk
	powered
	name string
}

// Close implements hw.Disk. What was written goes into the journal.
func (d *drive) Close() error {
	err := d.Disk.Close()
	if e, ok := d.run.writes.take(d.name); ok {
		e.Start = d.run.number
		d.machine.note(e)
	}
	d.machine.swap(d.run, StageWriting, StageAgent)
	return err
}

// tallies sum up what is written to disks from their opening to their closing.
type tallies struct {
	mu sync.Mutex
	by map[string]Event
}

// add counts n bytes; first reports whether they are the first.
func (t *tallies) add(disk string, off, n int64) (first bool) {
	if n == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.by[disk]
	if !ok {
		e = Event{Kind: Write, Disk: disk, First: off, Last: off + n - 1}
	}
	e.First, e.Last = min(e.First, off), max(e.Last, off+n-1)
	e.Bytes += n
	if t.by == nil {
		t.by = map[string]Event{}
	}
	t.by[disk] = e
	return !ok
}

// take returns the sum of a disk, and begins anew.
func (t *tallies) take(disk string) (Event, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.by[disk]
	delete(t.by, disk)
	return e, ok
}
