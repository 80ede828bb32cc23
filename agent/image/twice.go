package image

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// blockSize is what is read again at once, and blockCount how many such blocks
// are kept.
const (
	blockSize  = 4 << 20
	blockCount = 6
)

// twice keeps only a hash of every block of the file. A block that is read
// again must be what it was, so what is written is what was verified.
type twice struct {
	again io.ReaderAt
	size  int64
	sums  []sum
	cur   hasher
	last  sync.Once // ends the last block

	mu     sync.Mutex
	blocks []*block // least recently used first
}

type block struct {
	index int64
	once  sync.Once
	data  []byte
	err   error
}

var errDifferent = errors.New("the server sent other bytes at the second reading than at the first")

func newTwice(ra io.ReaderAt, size int64) *twice { return &twice{again: ra, size: size} }

// Write implements io.Writer.
func (t *twice) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		m := min(len(p), blockSize-t.cur.n)
		t.cur.add(p[:m])
		if t.cur.n == blockSize {
			t.sums = append(t.sums, t.cur.sum())
		}
		p = p[m:]
	}
	return n, nil
}

// ReadAt implements io.ReaderAt for several goroutines.
func (t *twice) ReadAt(p []byte, off int64) (n int, err error) {
	t.last.Do(func() {
		if t.cur.n > 0 {
			t.sums = append(t.sums, t.cur.sum())
		}
	})
	for n < len(p) {
		at := off + int64(n)
		if at < 0 || at >= t.size {
			return n, io.EOF
		}
		b := t.block(at / blockSize)
		b.once.Do(func() { b.data, b.err = t.load(b.index) })
		if b.err != nil {
			return n, b.err
		}
		n += copy(p[n:], b.data[at%blockSize:])
	}
	return n, nil
}

// block returns a block from the cache, or a new one in the oldest's place.
func (t *twice) block(index int64) *block {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, b := range t.blocks {
		if b.index == index {
			t.blocks = append(append(t.blocks[:i:i], t.blocks[i+1:]...), b)
			return b
		}
	}
	if len(t.blocks) == blockCount {
		t.blocks = t.blocks[1:]
	}
	b := &block{index: index}
	t.blocks = append(t.blocks, b)
	return b
}

func (t *twice) load(index int64) ([]byte, error) {
	p := make([]byte, min(blockSize, t.size-index*blockSize))
	if n, err := t.again.ReadAt(p, index*blockSize); n < len(p) {
		return nil, fmt.Errorf("read the image file again at %d: %w", index*blockSize, err)
	}
	if int(index) >= len(t.sums) || sumOf(p) != t.sums[index] {
		return nil, fmt.Errorf("%w: at byte %d %w", ErrChecksum, index*blockSize, errDifferent)
	}
	return p, nil
}

func (t *twice) clear() error { return nil }
