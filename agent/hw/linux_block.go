//go:build linux

package hw

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenDisk implements Machine. A writable disk is opened exclusively: nothing
// else in this kernel can then hold it or a partition of it.
func (m *Linux) OpenDisk(name string, writable bool) (Disk, error) {
	base := strings.ReplaceAll(strings.TrimPrefix(name, "/dev/"), "/", "!")
	if !strings.HasPrefix(name, "/dev/") || base == "" || base[0] == '.' || !m.exists(filepath.Join("sys/block", base)) {
		return nil, fmt.Errorf("open disk %q: there is no such disk", name)
	}
	flags := os.O_RDONLY
	if writable {
		flags = os.O_RDWR | unix.O_EXCL
	}
	f, err := patiently(openPause, func() (*os.File, error) { return os.OpenFile(name, flags|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, fmt.Errorf("open disk: %w", err)
	}
	d, err := newBlockDisk(f, m.path("sys/block", base))
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open disk %s: %w", name, err)
	}
	if writable && d.readOnly {
		f.Close()
		return nil, fmt.Errorf("open disk %s for writing: it is read-only", name)
	}
	return d, nil
}

// A blockDisk is an open disk. What passes through it does not stay in memory:
// an image of any size can be written on a machine with 512 MB.
type blockDisk struct {
	f        *os.File
	sysfs    string
	size     int64
	sector   int
	readOnly bool
	written  *cacheWindow
	read     cacheWindow
}

func newBlockDisk(f *os.File, sysfs string) (*blockDisk, error) {
	d := &blockDisk{f: f, sysfs: sysfs}
	var size uint64
	if err := d.ioctl(unix.BLKGETSIZE64, unsafe.Pointer(&size)); err != nil {
		return nil, fmt.Errorf("read its size: %w", err)
	}
	sector, err := unix.IoctlGetInt(int(f.Fd()), unix.BLKSSZGET)
	if err != nil {
		return nil, fmt.Errorf("read its sector size: %w", err)
	}
	readOnly, err := unix.IoctlGetInt(int(f.Fd()), unix.BLKROGET)
	if err != nil {
		return nil, fmt.Errorf("read whether it is read-only: %w", err)
	}
	d.size, d.sector, d.readOnly = int64(size), sector, readOnly != 0
	d.written = writeOutWindow(f)
	d.read.leave = func(off, n int64) error { return unix.Fadvise(int(f.Fd()), off, n, unix.FADV_DONTNEED) }
	return d, nil
}

func (d *blockDisk) ioctl(request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, d.f.Fd(), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// writeOutWindow keeps the cache of what is written small.
func writeOutWindow(f *os.File) *cacheWindow {
	return &cacheWindow{
		leave: func(off, n int64) error { return writeOut(f, off, n) },
		enter: func(off, n int64) error {
			return unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
		},
	}
}

// writeOut waits until a range is written and forgets it.
func writeOut(f *os.File, off, n int64) error {
	const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	if err := unix.SyncFileRange(int(f.Fd()), off, n, all); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), off, n, unix.FADV_DONTNEED)
}

// Size implements Disk.
func (d *blockDisk) Size() int64 { return d.size }

// SectorSize implements Disk.
func (d *blockDisk) SectorSize() int { return d.sector }

// ReadAt implements io.ReaderAt.
func (d *blockDisk) ReadAt(p []byte, off int64) (int, error) {
	n, err := d.f.ReadAt(p, off)
	if err != nil { // io.EOF must stay io.EOF
		return n, err
	}
	return n, d.read.add(off, int64(n))
}

// WriteAt implements io.WriterAt. An error may be that of an earlier write.
func (d *blockDisk) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || int64(len(p)) > d.size-off {
		return 0, fmt.Errorf("write %d bytes at %d of %s: the disk has %d bytes: %w", len(p), off, d.f.Name(), d.size, io.ErrShortWrite)
	}
	n, err := d.f.WriteAt(p, off)
	if err != nil {
		return n, err
	}
	if err := d.written.add(off, int64(n)); err != nil {
		return n, fmt.Errorf("write to %s: %w", d.f.Name(), err)
	}
	return n, nil
}

// Sync implements Disk.
func (d *blockDisk) Sync() error {
	if err := d.f.Sync(); err != nil {
		return fmt.Errorf("write out %s: %w", d.f.Name(), err)
	}
	// So that what is read next comes from the medium.
	return unix.Fadvise(int(d.f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// Close implements Disk.
func (d *blockDisk) Close() error { return d.f.Close() }

// RereadPartitions implements Disk.
func (d *blockDisk) RereadPartitions() error {
	_, err := patiently(openPause, func() (struct{}, error) { return struct{}{}, d.ioctl(unix.BLKRRPART, nil) })
	if err != nil {
		return fmt.Errorf("read the partition table of %s anew: %w", d.f.Name(), err)
	}
	return nil
}

// zeroChunk is how much one request zeroes: the kernel cannot be interrupted
// in it.
const zeroChunk = 256 << 20

// Zero implements Disk. The kernel lets the disk do it where it can (WRITE
// SAME, NVMe Write Zeroes), and writes zeros where not.
func (d *blockDisk) Zero(off, n int64) error {
	if off < 0 || n < 0 || n > d.size-off {
		return fmt.Errorf("zero %d bytes at %d of %s: the disk has %d bytes", n, off, d.f.Name(), d.size)
	}
	sector := int64(d.sector)
	head := min(n, (sector-off%sector)%sector)
	tail := (n - head) % sector
	if err := d.writeZeros(off, head); err != nil {
		return err
	}
	end := off + n - tail
	for at := off + head; at < end; at += zeroChunk {
		if err := d.zeroSectors(at, min(zeroChunk, end-at)); err != nil {
			return err
		}
	}
	return d.writeZeros(end, tail)
}

// zeroSectors zeroes whole sectors.
func (d *blockDisk) zeroSectors(off, n int64) error {
	err := d.ioctl(unix.BLKZEROOUT, unsafe.Pointer(&[2]uint64{uint64(off), uint64(n)}))
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		return d.writeZeros(off, n)
	}
	if err != nil {
		return fmt.Errorf("zero %d bytes at %d of %s: %w", n, off, d.f.Name(), err)
	}
	return nil
}

// blank is what is written where the kernel cannot zero.
var blank [1 << 20]byte

func (d *blockDisk) writeZeros(off, n int64) error {
	for n > 0 {
		k, err := d.WriteAt(blank[:min(n, int64(len(blank)))], off)
		if err != nil {
			return err
		}
		off, n = off+int64(k), n-int64(k)
	}
	return nil
}

// Discard implements Disk.
func (d *blockDisk) Discard() error {
	if attr(d.sysfs, "queue/discard_max_bytes") == "0" {
		return fmt.Errorf("discard %s: %w", d.f.Name(), errors.ErrUnsupported)
	}
	const chunk = 1 << 30
	for at := int64(0); at < d.size; at += chunk {
		err := d.ioctl(unix.BLKDISCARD, unsafe.Pointer(&[2]uint64{uint64(at), uint64(min(chunk, d.size-at))}))
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) {
			return fmt.Errorf("discard %s: %w", d.f.Name(), errors.ErrUnsupported)
		}
		if err != nil {
			return fmt.Errorf("discard %s at %d: %w", d.f.Name(), at, err)
		}
	}
	return nil
}
