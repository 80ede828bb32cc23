// Package image writes an image file to a disk while it arrives.
//
// What a file is, its content says: raw or qcow2, plain or packed with gzip,
// zstd or xz. The memory used does not grow with the image. When [Write]
// returns without error, the file had the checksum that was asked for and the
// disk begins with exactly the image's bytes, holes included. When it fails,
// the disk is either untouched (the file was refused for what its first bytes
// say) or has no partition table: the first MiB is written last, after the
// checksum was found right.
package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"bessemer/agent/hw"
)

// A Source opens an image file. It may be asked more than once.
type Source interface {
	// Open starts reading the file from its beginning; ctx ends the reading.
	Open(ctx context.Context) (File, error)
}

// A File is an image file that is read once, in order.
type File interface {
	io.ReadCloser
	// Size is the file's size in bytes, -1 when unknown.
	Size() int64
	// Ranges returns random access to the same version of the file, or nil.
	Ranges(ctx context.Context) io.ReaderAt
}

// Options say what to expect and what may be used.
type Options struct {
	Checksum  Checksum       // of the file; required
	Claim     string         // what the file is said to be: "raw", "qcow2", "iso", "" if nothing is said
	Permitted []string       // formats that may be written; empty: all that are known
	Memory    int64          // bytes of memory that may hold a qcow2 file; 0: 16 MiB
	Progress  func(Progress) // called about four times a second, and at the end; may be nil
}

// A Result is what was written.
type Result struct {
	Format   Format
	Packing  Packing
	Size     int64 // of the disk image, bytes
	FileSize int64 // of the file, bytes
	Zeroed   int64 // bytes of the image that were made zero without writing
	Took     time.Duration
}

// ErrTooSmall is wrapped when the image is larger than the disk (K-18).
var ErrTooSmall = errors.New("the disk is too small")

// ErrFormat is wrapped when a file is not an image that we write.
var ErrFormat = errors.New("image refused")

// Write writes the image to the beginning of a disk. Errors wrap
// ErrNoChecksum, ErrChecksum, ErrFormat, ErrTooSmall, or are those of the
// source and the disk.
func Write(ctx context.Context, src Source, dst hw.Disk, o Options) (Result, error) {
	if err := o.Checksum.valid(); err != nil {
		return Result{}, err
	}
	if o.Memory <= 0 {
		o.Memory = 16 << 20
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f, err := src.Open(ctx)
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	in := startIntake(ctx, f, f.Size(), o.Checksum.hash())
	defer in.wait()
	defer cancel(errStopped) // before the wait, so that a blocked read ends
	w := &writing{o: o, file: f, in: in, dst: dst, canvas: newCanvas(dst), meter: newMeter(f.Size(), in), cancel: cancel}
	stop := w.meter.report(o.Progress)
	defer stop()
	return w.run(ctx)
}

var errStopped = errors.New("writing stopped")

// writing is one image on its way to a disk.
type writing struct {
	o      Options
	file   File
	in     *intake
	dst    hw.Disk
	canvas *canvas
	meter  *meter
	piece  int                     // bytes that are painted at once
	cancel context.CancelCauseFunc // stops reading the file
	res    Result
}

func (w *writing) run(ctx context.Context) (Result, error) {
	start := time.Now()
	un, err := unpack(w.in)
	if err != nil {
		return w.res, w.blame(err)
	}
	defer un.Close()
	w.res.Packing = un.packing
	if w.res.Format, err = detect(un.head, w.o); err != nil {
		return w.res, err
	}
	if w.res.Format == Qcow2 {
		err = w.qcow2(ctx, un)
	} else {
		err = w.raw(ctx, un)
	}
	if err != nil {
		return w.res, err
	}
	if err := w.canvas.commit(); err != nil {
		return w.res, err
	}
	w.res.Zeroed, w.res.FileSize, w.res.Took = w.canvas.zeroed.Load(), w.in.read.Load(), time.Since(start)
	return w.res, nil
}

// blame prefers the download's error over what unpacking made of it.
func (w *writing) blame(err error) error {
	if e := w.in.failure(); e != nil {
		return e
	}
	return err
}

// verify reads the rest of the file, waits for its hash and compares it.
func (w *writing) verify() error {
	sum, err := w.in.finish()
	if err != nil {
		return err
	}
	return w.o.Checksum.compare(sum)
}

func (w *writing) tooSmall(size int64, more string) error {
	return fmt.Errorf("%w: the image is %s%d bytes (%s), the disk has %d bytes (%s); choose a larger disk by a root device hint, or a smaller image",
		ErrTooSmall, more, size, human(size), w.dst.Size(), human(w.dst.Size()))
}

// human is a size as people say it.
func human(n int64) string {
	switch {
	case n >= 1<<40:
		return fmt.Sprintf("%.1f TiB", float64(n)/(1<<40))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}
