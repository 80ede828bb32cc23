package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	qimage "github.com/lima-vm/go-qcow2reader/image"
	"github.com/lima-vm/go-qcow2reader/image/qcow2"
)

const (
	segmentSize = 32 << 20 // what a worker takes at a time
	workers     = 3
)

// qcow2 writes a qcow2 image. Its tables may point anywhere in the file, so the
// whole file is fetched and its checksum found right before it is looked into;
// where it is kept until then, the store decides.
func (w *writing) qcow2(ctx context.Context, un *unpacked) error {
	h, err := checkQcow(un.head)
	if err != nil {
		return err
	}
	if w.res.Size = h.size; h.size > w.dst.Size() {
		return w.tooSmall(h.size, "")
	}
	st, err := w.store(ctx, un, h)
	if err != nil {
		return err
	}
	if err := w.fetch(ctx, un, st); err != nil {
		return err
	}
	if err := w.verify(); err != nil {
		return err
	}
	if err := w.canvas.begin(); err != nil {
		return err
	}
	w.meter.begin("write image", w.canvas, h.size)
	if err := expand(ctx, st, h, w.canvas); err != nil {
		return err
	}
	return st.clear()
}

// fetch copies the file into the store.
func (w *writing) fetch(ctx context.Context, un *unpacked, st store) error {
	w.meter.beginFunc("fetch image", w.in.read.Load, w.file.Size())
	n := int64(pieceSize)
	if size := w.file.Size(); un.packing == Plain && size >= 0 {
		n = min(n, size+1) // with the byte that is not there, a small file is one piece
	}
	buf := make([]byte, n)
	for {
		n, err := readFull(un, buf)
		if _, werr := st.Write(buf[:n]); werr != nil {
			return werr
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return w.blame(err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// expand paints the image with several workers.
func expand(ctx context.Context, file io.ReaderAt, h qcowHeader, c *canvas) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ra := &onlyReaderAt{ReaderAt: file}
	img, err := openQcow(ra, h)
	if err != nil {
		return ra.blame(err)
	}
	next := make(chan int64)
	var wg sync.WaitGroup
	for range min(workers, (h.size+segmentSize-1)/segmentSize) {
		wg.Go(func() {
			buf := make([]byte, min(pieceSize, h.size))
			for off := range next {
				if err := segment(ctx, img, c, off, min(off+segmentSize, h.size), buf); err != nil {
					cancel(ra.blame(err))
				}
			}
		})
	}
	for off := int64(0); off < h.size && ctx.Err() == nil; off += segmentSize {
		next <- off
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// segment paints a part of the image. A panic of the library is an error of
// the image (H22).
func segment(ctx context.Context, img qimage.Image, c *canvas, off, end int64, buf []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = refuse("its tables are damaged: %v", r)
		}
	}()
	for off < end {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e, err := img.Extent(off, end-off)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = refuse("it refers to tables behind its end: %w", io.ErrUnexpectedEOF)
		}
		if err != nil {
			return fmt.Errorf("read qcow2 tables for byte %d: %w", off, err)
		}
		n := min(e.Length, end-off)
		if n <= 0 {
			return refuse("its tables describe nothing at byte %d", off)
		}
		if e.Zero {
			err = c.zero(off, n)
		} else {
			n = min(n, int64(len(buf)))
			err = copyExtent(img, c, buf[:n], off)
		}
		if err != nil {
			return err
		}
		off += n
	}
	return nil
}

func copyExtent(img io.ReaderAt, c *canvas, p []byte, off int64) error {
	n, err := img.ReadAt(p, off)
	if n < len(p) {
		if err == nil || errors.Is(err, io.EOF) {
			err = refuse("it refers to data behind its end: %w", io.ErrUnexpectedEOF)
		}
		return fmt.Errorf("read qcow2 data for byte %d: %w", off, err)
	}
	if isZero(p) {
		return c.zero(off, int64(len(p)))
	}
	return c.write(p, off)
}

// openQcow gives a checked file to the library. The reader has no name and the
// opener refuses, so there is no way to another file.
func openQcow(file *onlyReaderAt, h qcowHeader) (img qimage.Image, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = refuse("its header is damaged: %v", r)
		}
	}()
	prepareLibrary()
	q, err := qcow2.Open(file, func(io.ReaderAt, qimage.Type) (qimage.Image, error) {
		return nil, refuse("it wants another file")
	})
	if err != nil {
		return nil, refuse("%w", err)
	}
	if err := q.Readable(); err != nil {
		return nil, refuse("%w", err)
	}
	if q.BackingFile != "" || q.Size() != h.size {
		return nil, refuse("the file is not the one whose header was checked")
	}
	return q, nil
}

// onlyReaderAt hides everything else that a file can do, its name above all.
// It remembers an error of the file, since the library makes text of it.
type onlyReaderAt struct {
	io.ReaderAt
	failed atomic.Pointer[error]
}

// ReadAt implements io.ReaderAt.
func (o *onlyReaderAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.ReaderAt.ReadAt(p, off)
	if err != nil && err != io.EOF {
		o.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// blame prefers the file's error over what the library made of it.
func (o *onlyReaderAt) blame(err error) error {
	if e := o.failed.Load(); e != nil && err != nil {
		return *e
	}
	return err
}
