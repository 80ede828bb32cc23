package image

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"

	"bessemer/agent/hw"
)

const (
	// holdBack is how much of the disk's beginning is written last.
	holdBack = 1 << 20
	// zeroUnit is the smallest run of zero bytes that is not written.
	zeroUnit = 64 << 10
	// zeroStep is how much is zeroed in one call, so that progress shows and
	// a cancelled write ends soon.
	zeroStep = 256 << 20
)

var zeroBlock = make([]byte, zeroUnit)

func isZero(p []byte) bool {
	for len(p) > zeroUnit {
		if !bytes.Equal(p[:zeroUnit], zeroBlock) {
			return false
		}
		p = p[zeroUnit:]
	}
	return bytes.Equal(p, zeroBlock[:len(p)])
}

// canvas is the disk that an image is put onto. Its first MiB is kept in
// memory until commit, so that a half-written disk does not boot. The methods
// may be called by several goroutines for different ranges.
type canvas struct {
	disk   hw.Disk
	begun  sync.Once
	failed error
	zeroed atomic.Int64
	done   atomic.Int64 // bytes of the image that are dealt with

	mu   sync.Mutex
	head []byte // nil before begin
	end  int64  // of what was put into head
}

func newCanvas(d hw.Disk) *canvas { return &canvas{disk: d} }

// begin makes the disk one that does not boot and has no partition table: it
// clears the first MiB and, for GPT's backup, the last (K-23).
func (c *canvas) begin() error {
	c.begun.Do(func() {
		n := min(holdBack, c.disk.Size())
		c.head = make([]byte, n)
		if c.failed = c.disk.Zero(0, n); c.failed == nil {
			c.failed = c.disk.Zero(c.disk.Size()-n, n)
		}
		if c.failed != nil {
			c.failed = fmt.Errorf("clear partition tables: %w", c.failed)
		}
	})
	return c.failed
}

// write puts bytes at an offset.
func (c *canvas) write(p []byte, off int64) error {
	n := int64(len(p))
	if off < int64(len(c.head)) {
		c.mu.Lock()
		m := copy(c.head[off:], p)
		c.end = max(c.end, off+int64(m))
		c.mu.Unlock()
		p, off = p[m:], off+int64(m)
	}
	if len(p) > 0 {
		if _, err := c.disk.WriteAt(p, off); err != nil {
			return fmt.Errorf("write %d bytes at %d: %w", len(p), off, err)
		}
	}
	c.done.Add(n)
	return nil
}

// zero makes a range read as zeros.
func (c *canvas) zero(off, n int64) error {
	if h := int64(len(c.head)); off < h { // never written, so zero already
		m := min(n, h-off)
		c.mu.Lock()
		c.end = max(c.end, off+m)
		c.mu.Unlock()
		off, n = off+m, n-m
		c.done.Add(m)
	}
	for n > 0 {
		m := min(n, zeroStep)
		if err := c.clear(off, m); err != nil {
			return fmt.Errorf("zero %d bytes at %d: %w", m, off, err)
		}
		c.done.Add(m)
		off, n = off+m, n-m
	}
	return nil
}

// clear zeroes whole sectors by the disk's own means and writes the rest.
func (c *canvas) clear(off, n int64) error {
	sector := int64(c.disk.SectorSize())
	first := (off + sector - 1) / sector * sector
	last := (off + n) / sector * sector
	if first >= last {
		_, err := c.disk.WriteAt(make([]byte, n), off)
		return err
	}
	if off < first {
		if _, err := c.disk.WriteAt(make([]byte, first-off), off); err != nil {
			return err
		}
	}
	if last < off+n {
		if _, err := c.disk.WriteAt(make([]byte, off+n-last), last); err != nil {
			return err
		}
	}
	c.zeroed.Add(last - first)
	return c.disk.Zero(first, last-first)
}

// commit writes the first MiB, after everything else is on the medium.
func (c *canvas) commit() error {
	if err := c.disk.Sync(); err != nil {
		return fmt.Errorf("flush the image to the disk: %w", err)
	}
	if _, err := c.disk.WriteAt(c.head[:c.end], 0); err != nil {
		return fmt.Errorf("write the beginning of the disk: %w", err)
	}
	if err := c.disk.Sync(); err != nil {
		return fmt.Errorf("flush the beginning of the disk: %w", err)
	}
	return nil
}
