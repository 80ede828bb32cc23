package rack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// maxJournal is how large a journal's file may get before its older half goes,
// in bytes; that is well over a thousand events.
const maxJournal = 256 << 10

// A journal is what happened to one machine: a file with a line of JSON for
// each event. Nothing of it but the totals is kept in memory.
type journal struct {
	path string

	mu     sync.Mutex
	totals Totals
	size   int64
}

// openJournal goes on with a journal, or begins one. Totals are those of an
// earlier time; the events since are counted to them.
func openJournal(path string, totals Totals) (*journal, error) {
	j := &journal{path: path, totals: totals}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	if j.size = int64(len(b)); j.size > 0 && b[j.size-1] != '\n' {
		if err := j.write([]byte("\n")); err != nil { // a kill has left half a line
			return nil, err
		}
	}
	for _, e := range parseEvents(b) {
		if e.Seq > j.totals.Events {
			j.totals.add(e)
		}
	}
	return j, nil
}

// add writes an event; its number and time are set here. What is written stays
// when the process is killed.
func (j *journal) add(e Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Seq, e.Time = j.totals.Events+1, time.Now().UTC()
	j.totals.add(e)
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if j.size > maxJournal {
		if err := j.halve(); err != nil {
			return err
		}
	}
	return j.write(append(b, '\n'))
}

// write appends to the file.
func (j *journal) write(b []byte) error {
	f, err := os.OpenFile(j.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	n, err := f.Write(b)
	j.size += int64(n)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// halve drops the older half.
func (j *journal) halve() error {
	b, err := os.ReadFile(j.path)
	if err != nil {
		return fmt.Errorf("shorten journal: %w", err)
	}
	b = b[len(b)/2:]
	b = b[bytes.IndexByte(b, '\n')+1:]
	if err := replaceFile(j.path, b); err != nil {
		return fmt.Errorf("shorten journal: %w", err)
	}
	j.size = int64(len(b))
	return nil
}

// events reads the events that are kept, oldest first.
func (j *journal) events() ([]Event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b, err := os.ReadFile(j.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return parseEvents(b), nil
}

// sums returns the totals.
func (j *journal) sums() Totals {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.totals
	t.Power, t.Written = maps.Clone(t.Power), maps.Clone(t.Written)
	return t
}

// parseEvents reads lines of JSON. A line that a kill left torn is passed over.
func parseEvents(b []byte) (es []Event) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, maxJournal)
	for lines.Scan() {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Seq > 0 {
			es = append(es, e)
		}
	}
	return es
}

// replaceFile puts a file in another's place at once, so that a kill leaves one
// of them whole. It does not wait for the medium.
func replaceFile(path string, b []byte) error {
	next := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".next")
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}
