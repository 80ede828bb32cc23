package image

import (
	"context"
	"errors"
	"io"
)

const (
	pieceSize  = 1 << 20
	pieceLeast = 128 << 10
	pieceCount = 4
)

// piece is a part of the unpacked image on its way to the disk.
type piece struct {
	buf []byte
	n   int
}

// raw writes an image that is laid out as the disk.
func (w *writing) raw(ctx context.Context, un *unpacked) error {
	size := un.size
	if un.packing == Plain {
		size = w.file.Size()
	}
	if size > w.dst.Size() {
		return w.tooSmall(size, "")
	}
	w.meter.begin("write image", w.canvas, size)
	w.piece = partOf(size, pieceLeast, pieceSize)
	if err := w.canvas.begin(); err != nil {
		return err
	}
	var err error
	if w.res.Size, err = w.copyRaw(ctx, un); err != nil {
		return err
	}
	return w.verify()
}

// copyRaw reads pieces here and paints them in a goroutine.
func (w *writing) copyRaw(ctx context.Context, r io.Reader) (int64, error) {
	free, full := make(chan *piece, pieceCount), make(chan *piece, pieceCount)
	for range pieceCount {
		free <- &piece{}
	}
	painted := make(chan error, 1)
	go func() {
		err := paint(w.canvas, full, free)
		if err != nil {
			w.cancel(err) // the reader may wait for the network
		}
		painted <- err
	}()
	n, err := w.slice(ctx, r, free, full)
	close(full)
	if perr := <-painted; perr != nil {
		return n, perr
	}
	if err != nil && !errors.Is(err, ErrTooSmall) {
		err = w.blame(err)
	}
	return n, err
}

// slice reads the image into pieces until it ends or exceeds the disk.
func (w *writing) slice(ctx context.Context, r io.Reader, free <-chan *piece, full chan<- *piece) (size int64, err error) {
	for {
		var p *piece
		select {
		case p = <-free:
		case <-ctx.Done():
			return size, context.Cause(ctx)
		}
		if p.buf == nil {
			p.buf = make([]byte, w.piece)
		}
		p.n, err = readFull(r, p.buf)
		if size += int64(p.n); size > w.dst.Size() {
			return size, w.tooSmall(size, "at least ")
		}
		if p.n > 0 {
			full <- p
		}
		switch {
		case errors.Is(err, io.EOF):
			return size, nil
		case err != nil:
			return size, err
		}
	}
}

// paint puts pieces onto the canvas in order, until the channel is closed or an
// error ends it. Runs of zeros are gathered over pieces and zeroed at once.
func paint(c *canvas, full <-chan *piece, free chan<- *piece) error {
	s := sparse{canvas: c}
	for p := range full {
		if err := s.put(p.buf[:p.n]); err != nil {
			return err
		}
		free <- p
	}
	return s.flush()
}

// sparse tells zeros from data in a stream.
type sparse struct {
	canvas *canvas
	off    int64 // of the next byte
	zeros  int64 // zero bytes before off that are not dealt with yet
}

// put takes the next bytes of the image.
func (s *sparse) put(p []byte) error {
	for len(p) > 0 {
		n, zero := run(p)
		if zero {
			s.zeros += int64(n)
		} else {
			if err := s.flush(); err != nil {
				return err
			}
			if err := s.canvas.write(p[:n], s.off); err != nil {
				return err
			}
		}
		s.off += int64(n)
		p = p[n:]
	}
	if s.zeros >= zeroStep {
		return s.flush()
	}
	return nil
}

// run is the length of the first run of units that are all zero, or all not.
func run(p []byte) (n int, zero bool) {
	zero = isZero(p[:min(zeroUnit, len(p))])
	for n < len(p) {
		m := min(zeroUnit, len(p)-n)
		if n > 0 && isZero(p[n:n+m]) != zero {
			break
		}
		n += m
	}
	return n, zero
}

// flush zeroes what has been gathered.
func (s *sparse) flush() error {
	n := s.zeros
	s.zeros = 0
	return s.canvas.zero(s.off-n, n)
}
