package hw

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fakeDisk is a sparse file that behaves like a block device: it does not
// grow, and zeroing makes holes.
type fakeDisk struct {
	machine  *Fake
	name     string
	file     *os.File
	size     int64
	sector   int
	writable bool
	written  *cacheWindow // nil: the kernel writes when it likes
}

// Size implements Disk.
func (d *fakeDisk) Size() int64 { return d.size }

// SectorSize implements Disk.
func (d *fakeDisk) SectorSize() int { return d.sector }

// ReadAt implements io.ReaderAt.
func (d *fakeDisk) ReadAt(p []byte, off int64) (int, error) {
	if err := d.machine.fault("read", d.name, off, int64(len(p))); err != nil {
		return 0, err
	}
	return d.file.ReadAt(p, off)
}

// WriteAt implements io.WriterAt. Behind the end it fails with ENOSPC after
// writing what fits, as block devices do.
func (d *fakeDisk) WriteAt(p []byte, off int64) (int, error) {
	if err := d.check("write", off, int64(len(p))); err != nil {
		return d.tear(p, off, err)
	}
	fits := min(int64(len(p)), max(0, d.size-off))
	n, err := d.file.WriteAt(p[:fits], off)
	d.machine.done("write", d.name, off, int64(n))
	if err == nil && d.written != nil {
		err = d.written.add(off, int64(n))
	}
	if err == nil && fits < int64(len(p)) {
		err = &fs.PathError{Op: "write", Path: d.name, Err: syscall.ENOSPC}
	}
	return n, err
}

// tear does the part of a failing write that reaches the medium.
func (d *fakeDisk) tear(p []byte, off int64, err error) (int, error) {
	var t *Torn
	if !errors.As(err, &t) || t.Kept <= 0 {
		return 0, err
	}
	n, werr := d.file.WriteAt(p[:min(t.Kept, int64(len(p)))], off)
	d.machine.done("write", d.name, off, int64(n))
	return n, cmp.Or(werr, err)
}

// Zero implements Disk.
func (d *fakeDisk) Zero(off, n int64) error {
	if err := d.check("zero", off, n); err != nil {
		return err
	}
	if off < 0 || n < 0 || off+n > d.size {
		return fmt.Errorf("zero %s: bytes %d to %d of %d: %w", d.name, off, off+n, d.size, syscall.EINVAL)
	}
	if n == 0 {
		return nil
	}
	err := unix.Fallocate(int(d.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	if err == unix.EOPNOTSUPP {
		_, err = io.Copy(io.NewOffsetWriter(d.file, off), io.LimitReader(zeros{}, n))
	}
	if err == nil {
		d.machine.done("zero", d.name, off, n)
	}
	return err
}

// Discard implements Disk.
func (d *fakeDisk) Discard() error {
	if err := d.check("discard", 0, d.size); err != nil {
		return err
	}
	if err := d.file.Truncate(0); err != nil {
		return err
	}
	d.machine.done("discard", d.name, 0, d.size)
	return d.file.Truncate(d.size)
}

// Sync implements Disk.
func (d *fakeDisk) Sync() error {
	if err := d.machine.fault("sync", d.name, 0, 0); err != nil {
		return err
	}
	if d.machine.Volatile {
		return nil
	}
	return d.file.Sync()
}

// RereadPartitions implements Disk.
func (d *fakeDisk) RereadPartitions() error {
	if err := d.machine.fault("reread", d.name, 0, 0); err != nil {
		return err
	}
	if err := d.machine.wait(d.name); err != nil {
		return fmt.Errorf("read the partition table of %s anew: %w", d.name, err)
	}
	d.machine.record("reread " + d.name)
	return nil
}

// Close implements io.Closer.
func (d *fakeDisk) Close() error {
	d.machine.release(d.name, d.writable)
	return d.file.Close()
}

func (d *fakeDisk) check(op string, off, n int64) error {
	if !d.writable {
		return &fs.PathError{Op: op, Path: d.name, Err: syscall.EBADF}
	}
	return d.machine.fault(op, d.name, off, n)
}

// zeros is an endless run of zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
