//go:build linux

package hw

import "sync"

// cacheStep is how many bytes pass before the kernel is told about them.
const cacheStep = 8 << 20

// A cacheWindow keeps the kernel's cache of a disk small. Ranges that were
// touched are collected; when there are enough, they enter the window (the
// kernel begins to write them), and those that entered before leave it (they
// are waited for and forgotten). So at most two steps are in memory, and the
// disk always has something to do.
type cacheWindow struct {
	enter func(off, n int64) error // may be nil
	leave func(off, n int64) error

	mu        sync.Mutex
	now, last []span
	bytes     int64
}

// A span is a range of a disk.
type span struct{ off, n int64 }

// add notes a range.
func (w *cacheWindow) add(off, n int64) error {
	if n <= 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := len(w.now) - 1; k >= 0 && w.now[k].off+w.now[k].n == off {
		w.now[k].n += n
	} else {
		w.now = append(w.now, span{off, n})
	}
	if w.bytes += n; w.bytes < cacheStep {
		return nil
	}
	leaving, entering := w.last, w.now
	w.last, w.now, w.bytes = w.now, nil, 0
	if w.enter != nil {
		if err := each(entering, w.enter); err != nil {
			return err
		}
	}
	return each(leaving, w.leave)
}

func each(spans []span, f func(off, n int64) error) error {
	for _, s := range spans {
		if err := f(s.off, s.n); err != nil {
			return err
		}
	}
	return nil
}
