package image

import (
	"context"
	"errors"
	"hash"
	"io"
	"sync"
	"sync/atomic"
)

// A file is read in chunkCount chunks of chunkSize bytes; a small file in
// smaller ones, so that many machines that are written at once share a memory.
const (
	chunkSize  = 512 << 10
	chunkLeast = 64 << 10
	chunkCount = 8
)

// partOf is the size of parts that suits something of a size: a whole number of
// least, at most most.
func partOf(size, least, most int64) int {
	if size < 0 {
		return int(most)
	}
	return int(min(most, max(1, size/(2*chunkCount)/least)*least))
}

// intake reads a file once. A goroutine reads ahead; another one hashes every
// byte beside; Read hands the bytes to the caller. So the network, the hash and
// unpacking use a core each.
type intake struct {
	ctx   context.Context
	src   io.Reader
	hash  hash.Hash
	chunk int // bytes
	free  chan *chunk
	out   chan *chunk // to Read
	sums  chan *chunk // to the hash
	wg    sync.WaitGroup
	read  atomic.Int64 // bytes of the file that have arrived

	cur *chunk // what Read is in the middle of
	pos int
	err error // the end of the file, or why it could not be read; set before out is closed
}

// chunk is a piece of the file that two goroutines look at.
type chunk struct {
	buf  []byte
	n    int
	refs atomic.Int32
}

func startIntake(ctx context.Context, src io.Reader, size int64, h hash.Hash) *intake {
	i := &intake{
		ctx: ctx, src: src, hash: h, chunk: partOf(size, chunkLeast, chunkSize),
		free: make(chan *chunk, chunkCount), out: make(chan *chunk, chunkCount), sums: make(chan *chunk, chunkCount),
	}
	for range chunkCount {
		i.free <- &chunk{} // memory comes when it is needed
	}
	i.wg.Go(i.fill)
	i.wg.Go(i.digest)
	return i
}

// fill reads the file to its end.
func (i *intake) fill() {
	defer close(i.out)
	defer close(i.sums)
	for i.err == nil {
		var c *chunk
		select {
		case c = <-i.free:
		case <-i.ctx.Done():
			i.err = context.Cause(i.ctx)
			return
		}
		if c.buf == nil {
			c.buf = make([]byte, i.chunk)
		}
		c.n, i.err = readFull(i.src, c.buf)
		if c.n == 0 {
			return
		}
		i.read.Add(int64(c.n))
		c.refs.Store(2)
		i.out <- c // both have room for all chunks
		i.sums <- c
	}
}

// readFull is io.ReadFull that leaves the source's own error as it is.
func readFull(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

func (i *intake) digest() {
	for c := range i.sums {
		i.hash.Write(c.buf[:c.n])
		i.release(c)
	}
}

func (i *intake) release(c *chunk) {
	if c.refs.Add(-1) == 0 {
		i.free <- c
	}
}

// Read implements io.Reader for one goroutine.
func (i *intake) Read(p []byte) (int, error) {
	if i.cur == nil {
		c, ok := <-i.out
		if !ok {
			return 0, i.err
		}
		i.cur, i.pos = c, 0
	}
	n := copy(p, i.cur.buf[i.pos:i.cur.n])
	if i.pos += n; i.pos == i.cur.n {
		i.release(i.cur)
		i.cur = nil
	}
	return n, nil
}

// finish reads what unpacking has left of the file and returns its hash. The
// whole file counts, also what stands behind the end of the packed data.
func (i *intake) finish() ([]byte, error) {
	if i.cur != nil {
		i.release(i.cur)
		i.cur = nil
	}
	for c := range i.out {
		i.release(c)
	}
	i.wg.Wait()
	if !errors.Is(i.err, io.EOF) {
		return nil, i.err
	}
	return i.hash.Sum(nil), nil
}

// failure returns why the file could not be read, if that has happened; the
// context must be over or the file at its end for it to be final.
func (i *intake) failure() error {
	select {
	case c, ok := <-i.out:
		if ok {
			i.release(c)
			return nil
		}
	default:
		return nil
	}
	if i.err == nil || errors.Is(i.err, io.EOF) {
		return nil
	}
	return i.err
}

// wait waits for the goroutines; the context must be over.
func (i *intake) wait() {
	for c := range i.out {
		i.release(c)
	}
	i.wg.Wait()
}
