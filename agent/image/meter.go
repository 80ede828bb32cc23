package image

import (
	"sync"
	"time"
)

// Progress is how far writing has come.
type Progress struct {
	What  string        // "write image", or "fetch image" while a qcow2 file is fetched before
	Done  int64         // bytes of the disk image, or of the file while it is fetched
	Total int64         // 0: not known
	Rate  float64       // bytes a second, over the last seconds
	ETA   time.Duration // 0: not known
}

// meter measures progress and tells it now and then.
type meter struct {
	fileSize int64 // -1: unknown
	in       *intake

	mu    sync.Mutex
	what  string
	done  func() int64
	total int64
	since time.Time
	last  int64
	at    time.Time
	rate  float64
}

func newMeter(fileSize int64, in *intake) *meter { return &meter{fileSize: fileSize, in: in} }

// begin starts a phase that is measured on the canvas; total may be unknown
// (-1).
func (m *meter) begin(what string, c *canvas, total int64) {
	m.beginFunc(what, c.done.Load, total)
}

func (m *meter) beginFunc(what string, done func() int64, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.what, m.done, m.total = what, done, max(total, 0)
	m.since, m.at, m.last, m.rate = now, now, done(), 0
}

// report calls f about four times a second until the returned function is
// called, which reports once more.
func (m *meter) report(f func(Progress)) (stop func()) {
	if f == nil {
		return func() {}
	}
	quit, quitted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(quitted)
		t := time.NewTicker(250 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				m.tell(f)
			case <-quit:
				m.tell(f)
				return
			}
		}
	}()
	return func() { close(quit); <-quitted }
}

func (m *meter) tell(f func(Progress)) {
	if p, ok := m.measure(time.Now()); ok {
		f(p)
	}
}

func (m *meter) measure(now time.Time) (Progress, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done == nil {
		return Progress{}, false
	}
	done := m.done()
	if dt := now.Sub(m.at).Seconds(); dt > 0.1 {
		m.rate = smooth(m.rate, float64(done-m.last)/dt, dt)
		m.at, m.last = now, done
	}
	share := 0.0
	if m.fileSize > 0 {
		share = float64(m.in.read.Load()) / float64(m.fileSize)
	}
	return Progress{m.what, done, m.total, m.rate, eta(done, m.total, m.rate, share, now.Sub(m.since))}, true
}

// smooth follows a rate with a time constant of three seconds.
func smooth(old, now, dt float64) float64 {
	if old == 0 {
		return now
	}
	k := dt / (dt + 3)
	return old + k*(now-old)
}

// eta estimates the rest: by rate when the total is known, else by the share of
// the file that has arrived.
func eta(done, total int64, rate, share float64, took time.Duration) time.Duration {
	switch {
	case total > 0 && rate > 0 && done <= total:
		return time.Duration(float64(total-done) / rate * float64(time.Second))
	case total == 0 && share > 0.01 && share <= 1:
		return time.Duration(float64(took) * (1 - share) / share)
	}
	return 0
}
