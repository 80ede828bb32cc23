package image

import (
	"io"
	"syscall"
)

// memDisk is a disk in memory, fast enough for fuzzing.
type memDisk struct{ b []byte }

func (m memDisk) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(p, m.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m memDisk) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > int64(len(m.b)) {
		return 0, syscall.ENOSPC
	}
	return copy(m.b[off:], p), nil
}

func (m memDisk) Zero(off, n int64) error {
	if off < 0 || n < 0 || off+n > int64(len(m.b)) {
		return syscall.EINVAL
	}
	clear(m.b[off : off+n])
	return nil
}

func (m memDisk) Size() int64             { return int64(len(m.b)) }
func (m memDisk) SectorSize() int         { return 512 }
func (m memDisk) Sync() error             { return nil }
func (m memDisk) Discard() error          { clear(m.b); return nil }
func (m memDisk) RereadPartitions() error { return nil }
func (m memDisk) Close() error            { return nil }
